//! Rust's libraries for ids: see ../../run for what is asked of a peer.

use std::io::{self, BufRead, BufWriter, Write};
use std::str::FromStr;

use svix_ksuid::{Ksuid, KsuidLike};
use type_safe_id::{DynamicType, TypeSafeId};
use ulid::Ulid;
use uuid::{NoContext, Timestamp, Uuid};

const FORMATS: &[&str] = &["uuid1", "uuid4", "uuid6", "uuid7", "ulid", "ksuid", "xid", "typeid"];
const READ_ONLY: &[&str] = &["base58"];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid_time(id: &Uuid) -> String {
    match id.get_timestamp() {
        Some(time) => {
            let (seconds, nanoseconds) = time.to_unix();
            (seconds * 1000 + u64::from(nanoseconds) / 1_000_000).to_string()
        }
        None => "-".to_string(),
    }
}

fn read(format: &str, text: &str) -> (String, String) {
    match format {
        "ulid" => {
            let id = Ulid::from_string(text).expect(text);
            (format!("{:032x}", u128::from(id)), id.timestamp_ms().to_string())
        }
        "ksuid" => {
            let id = Ksuid::from_str(text).expect(text);
            (hex(id.bytes()), (id.timestamp_seconds() * 1000).to_string())
        }
        "xid" => {
            let id = xid::Id::from_str(text).expect(text);
            let seconds = u32::from_be_bytes(id.0[..4].try_into().unwrap());
            (hex(&id.0), (u64::from(seconds) * 1000).to_string())
        }
        "typeid" => {
            let id = TypeSafeId::<DynamicType>::from_str(text).expect(text);
            (hex(id.uuid().as_bytes()), "-".to_string())
        }
        "base58" => {
            let bytes = bs58::decode(text).into_vec().expect(text);
            let mut id = [0u8; 16];
            let from = bytes.len().saturating_sub(16);
            id[16 - (bytes.len() - from)..].copy_from_slice(&bytes[from..]);
            (hex(&id), "-".to_string())
        }
        _ => {
            let id = Uuid::parse_str(text).expect(text);
            (hex(id.as_bytes()), uuid_time(&id))
        }
    }
}

fn make(format: &str) -> String {
    match format {
        "uuid1" => Uuid::new_v1(Timestamp::now(NoContext), &[1, 2, 3, 4, 5, 6]).to_string(),
        "uuid4" => Uuid::new_v4().to_string(),
        "uuid6" => Uuid::new_v6(Timestamp::now(NoContext), &[1, 2, 3, 4, 5, 6]).to_string(),
        "uuid7" => Uuid::now_v7().to_string(),
        "ulid" => Ulid::new().to_string(),
        "ksuid" => Ksuid::new(None, None).to_string(),
        "xid" => xid::new().to_string(),
        "typeid" => {
            let user = DynamicType::new("user").unwrap();
            TypeSafeId::new_with_type(user).to_string()
        }
        _ => panic!("cannot make {format}"),
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut out = BufWriter::new(io::stdout().lock());
    match arguments[1].as_str() {
        "formats" => {
            for format in FORMATS.iter().chain(READ_ONLY) {
                writeln!(out, "read\t{format}")?;
            }
            for format in FORMATS {
                writeln!(out, "make\t{format}")?;
            }
        }
        "read" => {
            for line in io::stdin().lock().lines() {
                let (data, time) = read(&arguments[2], &line?);
                writeln!(out, "{data}\t{time}")?;
            }
        }
        "make" => {
            for _ in 0..arguments[3].parse::<usize>().unwrap() {
                let text = make(&arguments[2]);
                let (data, time) = read(&arguments[2], &text);
                writeln!(out, "{text}\t{data}\t{time}")?;
            }
        }
        other => panic!("unknown verb {other}"),
    }
    out.flush()
}
