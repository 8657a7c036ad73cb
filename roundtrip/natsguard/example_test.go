package natsguard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

// A server whose states are used once, however many replicas it has.
func ExampleNew() {
	js, stop := exampleJetStream() // on a connection that reconnects for ever
	defer stop()

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
	fmt.Println("first claim:", guard.Claim(ctx, "a state", "", answers, until))
	fmt.Println("commit:", guard.Commit(ctx, "a state", []byte("charged once")))
	err = guard.Claim(ctx, "a state", "", answers, until)
	if spent, ok := errors.AsType[*store.SpentError](err); ok {
		fmt.Printf("replay: %s\n", spent.Outcome)
	}
	// Output:
	// first claim: <nil>
	// commit: <nil>
	// replay: charged once
}

func ExampleNewStateStore() {
	js, stop := exampleJetStream() // on a connection that reconnects for ever
	defer stop()

	kept, err := natsguard.NewStateStore(context.Background(), js, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	until := time.Now().Add(time.Hour)
	fmt.Println(kept.Put(ctx, "an id", "its owner", []byte("a large state"), until))
	state, err := kept.Get(ctx, "an id")
	fmt.Printf("%s %v\n", state, err)
	_, err = kept.Get(ctx, "another")
	fmt.Println(errors.Is(err, store.ErrStateGone))
	// Output:
	// <nil>
	// a large state <nil>
	// true
}

// exampleJetStream is a server within this process, and a connection to it.
func exampleJetStream() (js jetstream.JetStream, stop func()) {
	url, stopServer := natstest.ForExample()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		panic(err)
	}
	js, err = jetstream.New(nc)
	if err != nil {
		panic(err)
	}
	return js, func() {
		nc.Close()
		stopServer()
	}
}
