package natsguard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
	"github.com/rondo-mcp/rondo/server"
)

// A server whose states are used once, however many replicas it has.
func ExampleNew() {
	url, stop := exampleServer()
	defer stop()

	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	guard, err := natsguard.New(context.Background(), js, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = server.New(&server.Options{
		Info: protocol.Implementation{Name: "till", Version: "1.0.0"},
		// A fleet also sets Sealer and RequireSharedKey.
		Roundtrip: roundtrip.Options{Guard: guard},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// What the funnel of the server does with it:
	ctx, until, answers := context.Background(), time.Now().Add(time.Hour), [32]byte{1}
	fmt.Println("first claim:", guard.Claim(ctx, "a state", answers, until))
	fmt.Println("commit:", guard.Commit(ctx, "a state", []byte("charged once")))
	err = guard.Claim(ctx, "a state", answers, until)
	if spent, ok := errors.AsType[*roundtrip.SpentError](err); ok {
		fmt.Printf("replay: %s\n", spent.Outcome)
	}
	// Output:
	// first claim: <nil>
	// commit: <nil>
	// replay: charged once
}

func ExampleNewStateStore() {
	url, stop := exampleServer()
	defer stop()

	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := natsguard.NewStateStore(context.Background(), js, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(store.Put(ctx, "an id", "its owner", []byte("a large state"), time.Now().Add(time.Hour)))
	state, err := store.Get(ctx, "an id")
	fmt.Printf("%s %v\n", state, err)
	_, err = store.Get(ctx, "another")
	fmt.Println(errors.Is(err, roundtrip.ErrStateGone))
	// Output:
	// <nil>
	// a large state <nil>
	// true
}

// exampleServer starts a NATS server within this process.
func exampleServer() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "natsguard")
	if err != nil {
		panic(err)
	}
	srv, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: dir,
	})
	if err != nil {
		panic(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		panic("no NATS server")
	}
	return srv.ClientURL(), func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
