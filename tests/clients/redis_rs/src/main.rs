//! redis-rs takes ids from idmintd. See `run`.
//!
//!     client PORT

use redis::{cmd, pipe, Commands, RedisError, RedisResult};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

fn took<T: Display>(source: &str, values: impl IntoIterator<Item = T>) {
    for value in values {
        println!("{source} {value}");
    }
}

fn refused<T: std::fmt::Debug>(reply: RedisResult<T>, code: &str, why: &str) {
    let error = reply.unwrap_err();
    assert_eq!(error.code(), Some(code));
    assert!(error.to_string().contains(why), "{error}");
}

fn main() -> Result<(), RedisError> {
    let port = std::env::args().nth(1).expect("a port");
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut connection = client.get_connection()?;
    let pong: String = cmd("PING").query(&mut connection)?;
    assert_eq!(pong, "PONG");

    let first: i64 = connection.incr("orders", 1)?; // sends INCRBY orders 1
    let second: i64 = cmd("INCR").arg("orders").query(&mut connection)?;
    assert_eq!(second, first + 1);
    let mut last: i64 = connection.incr("orders", 5)?; // five values; the reply is the last one
    assert_eq!(last, second + 5);
    let value: i64 = connection.get("orders")?;
    assert_eq!(value, last);
    took("orders", [first]);
    took("orders", second..=last);

    // Several ids, and a range of consecutive values.
    let ids: Vec<i64> = cmd("ID.NEXT").arg("orders").arg("COUNT").arg(3).query(&mut connection)?;
    assert_eq!(ids, [last + 1, last + 2, last + 3]);
    let (begin, end): (i64, i64) = cmd("ID.RANGE").arg("orders").arg(10).query(&mut connection)?;
    assert_eq!((begin, end), (last + 4, last + 13));
    took("orders", ids);
    took("orders", begin..=end);
    last = end;

    // A pipeline, and a transaction. An error is one of the replies.
    for transaction in [false, true] {
        let mut several = pipe();
        if transaction {
            several.atomic();
        }
        several.cmd("INCR").arg("orders").cmd("INCR").arg("missing").cmd("INCR").arg("orders");
        let mut replies: Vec<RedisResult<i64>> = several.ignore_errors().query(&mut connection)?;
        let (three, two, one) = (replies.remove(2)?, replies.remove(1), replies.remove(0)?);
        assert_eq!((one, three), (last + 1, last + 2));
        refused(two, "NOTFOUND", "missing");
        took("orders", [one, three]);
        last = three;
    }

    // Values above 2^53-1 are exact, as redis-rs says what it is.
    let before: i64 = connection.incr("big", 1)?;
    let after: String = cmd("ID.NEXT").arg("big").query(&mut connection)?;
    assert!(before > 1 << 53);
    assert_eq!(after, (before + 1).to_string());
    took("big", [before, before + 1]);
    let mut many = HashSet::new();
    for _ in 0..2000 {
        many.insert(connection.incr::<_, _, i64>("web", 1)?);
    }
    assert_eq!(many.len(), 2000);
    took("web", many);

    // A UUID of version 7, and ids of the other kinds of sequences.
    let uuid: String = cmd("ID.NEXT").arg("uuid7").query(&mut connection)?;
    assert!(uuid.len() == 36 && uuid.as_bytes()[14] == b'7', "{uuid}");
    for source in ["tickets", "cards", "web"] {
        let some: HashSet<String> = cmd("ID.NEXT").arg(source).arg("COUNT").arg(100).query(&mut connection)?;
        assert_eq!(some.len(), 100);
        took(source, some);
    }

    // What there is.
    let state: HashMap<String, String> = cmd("ID.PEEK").arg("orders").query(&mut connection)?;
    assert_eq!(state["strategy"], "counter");
    assert_eq!(state["next"], (last + 1).to_string());
    let names: Vec<String> = connection.scan()?.collect::<RedisResult<_>>()?;
    assert!(names.contains(&"orders".to_string()), "{names:?}");
    let there: i64 = connection.exists(&["orders", "uuid7", "missing"])?;
    assert_eq!(there, 2);
    for (source, expected) in [("orders", "string"), ("missing", "none")] {
        let found: String = cmd("TYPE").arg(source).query(&mut connection)?;
        assert_eq!(found, expected);
    }
    let several: Vec<Option<i64>> = connection.mget(&["orders", "big", "missing"])?;
    assert_eq!(several, [Some(last), Some(before + 1), None]);

    // What is refused.
    refused(connection.incr::<_, _, i64>("missing", 1), "NOTFOUND", "missing");
    refused(connection.set::<_, _, String>("orders", 1), "ERR", "SET is refused");
    refused(connection.del::<_, i64>("orders"), "ERR", "DEL is refused");
    let with_password = redis::Client::open(format!("redis://:secret@127.0.0.1:{port}"))?;
    let error = with_password.get_connection().err().expect("AUTH is refused");
    assert_eq!(error.kind(), redis::ErrorKind::AuthenticationFailed); // its text is redis-rs's own

    // A connection that a restarted server has ended stays closed: the program opens another one.
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let reply: RedisResult<i64> = connection.incr("orders", 1);
    assert!(reply.unwrap_err().is_connection_dropped());
    let mut connection = client.get_connection()?;
    for _ in 0..100 {
        let value: i64 = connection.incr("orders", 1)?;
        assert!(value > last);
        last = value;
        took("orders", [value]);
    }
    Ok(())
}
