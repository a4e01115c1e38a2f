// Go's libraries for ids: see ../run for what is asked of a peer.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/segmentio/ksuid"
	"github.com/sony/sonyflake"
	"go.mongodb.org/mongo-driver/bson/primitive"
)

const noTime = "-"

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ms(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func readUUID(timed bool) func(string) (string, string) {
	return func(text string) (string, string) {
		id, err := uuid.Parse(text)
		must(err)
		if !timed {
			return hex.EncodeToString(id[:]), noTime
		}
		if id.Version() == 7 {
			return hex.EncodeToString(id[:]), strconv.FormatUint(binary.BigEndian.Uint64(id[:8])>>16, 10)
		}
		seconds, nanoseconds := id.Time().UnixTime()
		return hex.EncodeToString(id[:]), ms(time.Unix(seconds, nanoseconds))
	}
}

func integer(value uint64) string { return fmt.Sprintf("%016x", value) }

const sonyflakeV1Epoch = 1409529600000 // 2014-09-01

var read = map[string]func(string) (string, string){
	"uuid1": readUUID(true),
	"uuid4": readUUID(false),
	// Not version 6: google/uuid 1.6.0 lays its fields out otherwise than RFC 9562.
	"uuid7": readUUID(true),
	"ulid": func(text string) (string, string) {
		id, err := ulid.ParseStrict(text)
		must(err)
		return hex.EncodeToString(id[:]), strconv.FormatUint(id.Time(), 10)
	},
	"ksuid": func(text string) (string, string) {
		id, err := ksuid.Parse(text)
		must(err)
		return hex.EncodeToString(id.Bytes()), ms(id.Time())
	},
	"xid": func(text string) (string, string) {
		id, err := xid.FromString(text)
		must(err)
		return hex.EncodeToString(id.Bytes()), ms(id.Time())
	},
	"object-id": func(text string) (string, string) {
		id, err := primitive.ObjectIDFromHex(text)
		must(err)
		return id.Hex(), ms(id.Timestamp())
	},
	"snowflake --layout twitter --worker 5": func(text string) (string, string) {
		id, err := snowflake.ParseString(text)
		must(err)
		if id.Node() != 5 {
			must(fmt.Errorf("%s: node %d", text, id.Node()))
		}
		return integer(uint64(id.Int64())), strconv.FormatInt(id.Time(), 10)
	},
	"snowflake --layout sonyflake-v1 --worker 5": func(text string) (string, string) {
		value, err := strconv.ParseUint(text, 10, 64)
		must(err)
		parts := sonyflake.Decompose(value)
		if parts["machine-id"] != 5 {
			must(fmt.Errorf("%s: machine %d", text, parts["machine-id"]))
		}
		return integer(value), strconv.FormatUint(parts["time"]*10+sonyflakeV1Epoch, 10)
	},
}

func makers() map[string]func() string {
	node, err := snowflake.NewNode(5)
	must(err)
	machine := sonyflake.NewSonyflake(sonyflake.Settings{
		StartTime: time.UnixMilli(sonyflakeV1Epoch),
		MachineID: func() (uint16, error) { return 5, nil },
	})
	return map[string]func() string{
		"uuid1": func() string { return uuid.Must(uuid.NewUUID()).String() },
		"uuid4": func() string { return uuid.NewString() },
		"uuid7": func() string { return uuid.Must(uuid.NewV7()).String() },
		"ulid":  func() string { return ulid.Make().String() },
		"ksuid": func() string { return ksuid.New().String() },
		"xid":   func() string { return xid.New().String() },
		"object-id": func() string {
			return primitive.NewObjectID().Hex()
		},
		"snowflake --layout twitter --worker 5": func() string { return node.Generate().String() },
		"snowflake --layout sonyflake-v1 --worker 5": func() string {
			id, err := machine.NextID()
			must(err)
			return strconv.FormatUint(id, 10)
		},
	}
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	switch os.Args[1] {
	case "formats":
		for format := range read {
			fmt.Fprintf(out, "read\t%s\n", format)
		}
		for format := range makers() {
			fmt.Fprintf(out, "make\t%s\n", format)
		}
	case "read":
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			data, time := read[os.Args[2]](lines.Text())
			fmt.Fprintf(out, "%s\t%s\n", data, time)
		}
	case "make":
		count, err := strconv.Atoi(os.Args[3])
		must(err)
		maker := makers()[os.Args[2]]
		for i := 0; i < count; i++ {
			text := maker()
			data, time := read[os.Args[2]](text)
			fmt.Fprintf(out, "%s\t%s\t%s\n", text, data, time)
		}
	}
}
