// go-redis takes ids from idmintd. See `run`.
//
//	client PORT
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func check(right bool, what ...any) {
	if !right {
		log.Panicln(what...)
	}
}

// must returns the reply of a command, which is no error.
func must[T any](reply T, err error) T {
	check(err == nil, err)
	return reply
}

func took[T any](source string, values ...T) {
	for _, value := range values {
		fmt.Println(source, value)
	}
}

func tookRange(source string, first, last int64) {
	for ; first <= last; first++ {
		took(source, first)
	}
}

func refused(err error, why string) {
	check(err != nil && strings.Contains(err.Error(), why), "expected:", why, "but:", err)
}

func main() {
	address := "127.0.0.1:" + os.Args[1]
	client := redis.NewClient(&redis.Options{Addr: address})
	check(must(client.Ping(ctx).Result()) == "PONG")

	first := must(client.Incr(ctx, "orders").Result())
	second := must(client.Incr(ctx, "orders").Result())
	check(second == first+1, first, second)
	last := must(client.IncrBy(ctx, "orders", 5).Result()) // five values; the reply is the last one
	check(last == second+5, second, last)
	check(must(client.Get(ctx, "orders").Int64()) == last)
	took("orders", first)
	tookRange("orders", second, last)

	// Several ids, and a range of consecutive values.
	ids := must(client.Do(ctx, "ID.NEXT", "orders", "COUNT", 3).StringSlice())
	check(len(ids) == 3 && ids[0] == fmt.Sprint(last+1) && ids[2] == fmt.Sprint(last+3), ids)
	ends := must(client.Do(ctx, "ID.RANGE", "orders", 10).Int64Slice())
	check(len(ends) == 2 && ends[0] == last+4 && ends[1] == last+13, ends)
	took("orders", ids...)
	tookRange("orders", ends[0], ends[1])
	last = ends[1]

	// A pipeline, and a transaction. Each command has its own error.
	for _, pipeline := range []redis.Pipeliner{client.Pipeline(), client.TxPipeline()} {
		one, two, three := pipeline.Incr(ctx, "orders"), pipeline.Incr(ctx, "missing"), pipeline.Incr(ctx, "orders")
		_, err := pipeline.Exec(ctx) // the first error of them
		refused(err, "NOTFOUND ")
		refused(two.Err(), "NOTFOUND ")
		check(must(one.Result()) == last+1 && must(three.Result()) == last+2)
		took("orders", one.Val(), three.Val())
		last = three.Val()
	}

	// Values above 2^53-1 are exact, as go-redis says what it is.
	before := must(client.Incr(ctx, "big").Result())
	after := must(client.Do(ctx, "ID.NEXT", "big").Text())
	check(before > 1<<53 && after == fmt.Sprint(before+1), before, after)
	took("big", fmt.Sprint(before), after)
	many := map[int64]bool{}
	for i := 0; i < 2000; i++ {
		value := must(client.Incr(ctx, "web").Result())
		many[value] = true
		took("web", value)
	}
	check(len(many) == 2000, len(many))

	// A UUID of version 7, and ids of the other kinds of sequences.
	uuid := must(client.Do(ctx, "ID.NEXT", "uuid7").Text())
	check(len(uuid) == 36 && uuid[14] == '7', uuid)
	for _, source := range []string{"tickets", "cards", "web"} {
		some := must(client.Do(ctx, "ID.NEXT", source, "COUNT", 100).StringSlice())
		check(len(some) == 100, some)
		took(source, some...)
	}

	// What there is.
	state := must(client.Do(ctx, "ID.PEEK", "orders").Result()).(map[any]any)
	check(state["strategy"] == "counter" && state["next"] == last+1, state)
	found := false
	names := client.Scan(ctx, 0, "", 0).Iterator()
	for names.Next(ctx) {
		found = found || names.Val() == "orders"
	}
	check(names.Err() == nil && found, names.Err())
	check(must(client.Exists(ctx, "orders", "uuid7", "missing").Result()) == 2)
	check(must(client.Type(ctx, "orders").Result()) == "string")
	check(must(client.Type(ctx, "missing").Result()) == "none")
	several := must(client.MGet(ctx, "orders", "big", "missing").Result())
	check(several[0] == strconv.FormatInt(last, 10) && several[1] == after && several[2] == nil, several)

	// What is refused.
	err := client.Incr(ctx, "missing").Err()
	check(err != nil && strings.HasPrefix(err.Error(), "NOTFOUND "), err)
	refused(client.Set(ctx, "orders", 1, 0).Err(), "SET is refused")
	refused(client.Del(ctx, "orders").Err(), "DEL is refused")
	withPassword := redis.NewClient(&redis.Options{Addr: address, Password: "secret"})
	refused(withPassword.Ping(ctx).Err(), "asks for no password")

	// The client connects anew to a server that was restarted.
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err == nil, err)
	for i := 0; i < 100; i++ {
		value := must(client.Incr(ctx, "orders").Result())
		check(value > last, last, value)
		last = value
		took("orders", value)
	}
}
