// Jedis takes ids from idmintd. See `run`.
//
//   Client PORT

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Supplier;
import java.util.stream.LongStream;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.KeyValue;

public class Client {
  enum Id implements ProtocolCommand {
    NEXT, RANGE, PEEK;

    public byte[] getRaw() {
      return ("ID." + name()).getBytes();
    }
  }

  static void check(boolean right, Object... what) {
    if (!right) throw new AssertionError(Arrays.toString(what));
  }

  static void took(String source, Object... values) {
    for (Object value : values) System.out.println(source + " " + value);
  }

  static Object[] range(long first, long last) {
    return LongStream.rangeClosed(first, last).boxed().toArray();
  }

  static void refused(Supplier<?> call, String why) {
    try {
      check(false, why, call.get());
    } catch (JedisException error) {
      check(error.getMessage().contains(why), why, error);
    }
  }

  static String text(Object reply) {
    return new String((byte[]) reply);
  }

  static List<String> texts(Object reply) {
    return ((List<?>) reply).stream().map(Client::text).toList();
  }

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    RedisClient client = RedisClient.create("127.0.0.1", port);
    check(client.ping().equals("PONG"));

    long first = client.incr("orders");
    long second = client.incr("orders");
    check(second == first + 1, first, second);
    long last = client.incrBy("orders", 5); // five values; the reply is the last one
    check(last == second + 5, second, last);
    check(client.get("orders").equals("" + last));
    took("orders", first);
    took("orders", range(second, last));

    // Several ids, and a range of consecutive values.
    List<String> ids = texts(client.sendCommand(Id.NEXT, "orders", "COUNT", "3"));
    check(ids.equals(List.of("" + (last + 1), "" + (last + 2), "" + (last + 3))), ids);
    List<?> ends = (List<?>) client.sendCommand(Id.RANGE, "orders", "10");
    check(ends.equals(List.of(last + 4, last + 13)), ends);
    took("orders", ids.toArray());
    took("orders", range(last + 4, last + 13));
    last += 13;

    // A pipeline, and a transaction. An error is one of the replies.
    try (Pipeline pipeline = client.pipelined()) {
      Response<Long> one = pipeline.incr("orders");
      Response<Long> two = pipeline.incr("missing");
      Response<Long> three = pipeline.incr("orders");
      pipeline.sync();
      check(one.get() == last + 1 && three.get() == last + 2, one.get(), three.get());
      refused(two::get, "NOTFOUND ");
      took("orders", one.get(), three.get());
    }
    try (AbstractTransaction transaction = client.multi()) {
      transaction.incr("orders");
      transaction.incr("missing");
      transaction.incr("orders");
      List<Object> replies = transaction.exec();
      check(replies.get(0).equals(last + 3) && replies.get(2).equals(last + 4), replies);
      check(((JedisDataException) replies.get(1)).getMessage().startsWith("NOTFOUND "), replies);
      took("orders", replies.get(0), replies.get(2));
    }
    last += 4;

    // Values above 2^53-1 are exact, as Jedis says what it is.
    long before = client.incr("big");
    String after = text(client.sendCommand(Id.NEXT, "big"));
    check(before > 1L << 53 && after.equals("" + (before + 1)), before, after);
    took("big", before, after);
    HashSet<Long> many = new HashSet<>();
    for (int i = 0; i < 2000; ++i) many.add(client.incr("web"));
    check(many.size() == 2000, many.size());
    took("web", many.toArray());

    // A UUID of version 7, and ids of the other kinds of sequences.
    check(UUID.fromString(text(client.sendCommand(Id.NEXT, "uuid7"))).version() == 7);
    for (String source : List.of("tickets", "cards", "web")) {
      List<String> some = texts(client.sendCommand(Id.NEXT, source, "COUNT", "100"));
      check(new HashSet<>(some).size() == 100, some);
      took(source, some.toArray());
    }

    // What there is.
    Map<String, Object> state = new HashMap<>();
    for (Object each : (List<?>) client.sendCommand(Id.PEEK, "orders")) {
      KeyValue<?, ?> field = (KeyValue<?, ?>) each;
      state.put(text(field.getKey()), field.getValue());
    }
    check(text(state.get("strategy")).equals("counter"), state);
    check(state.get("next").equals(last + 1), state);
    List<String> names = new ArrayList<>();
    client.scanIteration(100, "*").collect(names);
    check(names.contains("orders"), names);
    check(client.exists("orders", "uuid7", "missing") == 2);
    check(client.type("orders").equals("string") && client.type("missing").equals("none"));
    List<String> several = client.mget("orders", "big", "missing");
    check(several.equals(Arrays.asList("" + last, after, null)), several);

    // What is refused.
    refused(() -> client.incr("missing"), "NOTFOUND ");
    refused(() -> client.set("orders", "1"), "SET is refused");
    refused(() -> client.del("orders"), "DEL is refused");
    refused(() -> RedisClient.create("127.0.0.1", port, null, "secret").ping(), "asks for no password");

    // A restarted server ends the connections that are in the pool. The pool connects anew.
    System.out.println("ready");
    System.in.read();
    for (int i = 0; i < 100; ++i) {
      long value;
      try {
        value = client.incr("orders");
      } catch (JedisConnectionException error) {
        value = client.incr("orders");
      }
      check(value > last, last, value);
      last = value;
      took("orders", value);
    }
    client.close();
  }
}
