// Package guardchaos tests a guard under failures: replicas in processes of their own serve a
// tool that charges, clients send the last request of each flow several times, and meanwhile
// processes are killed and connections cut. Each flow must be charged once at most.
package guardchaos

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// These make the test binary a replica: the address of the store, and the file in which each
// charge leaves a line.
const (
	storeVar   = "RONDO_CHAOS_STORE"
	chargesVar = "RONDO_CHAOS_CHARGES"
)

// ServeReplica runs the test binary as a replica until its standard input ends, and reports
// whether it was started as one. TestMain calls it first. open opens the guard of the store at
// an address.
func ServeReplica(open func(ctx context.Context, address string) (store.Guard, error)) bool {
	return Serve(storeVar, func(ctx context.Context, address string) (http.Handler, error) {
		guard, err := open(ctx, address)
		if err != nil {
			return nil, err
		}
		return newTill(guard, os.Getenv(chargesVar))
	}, func() (net.Listener, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			fmt.Println(listener.Addr())
		}
		return listener, err
	})
}

// Serve runs the test binary as a server over the store whose address a variable of the environment
// has, until its standard input ends, and reports whether there is one.
func Serve(variable string, newHandler func(ctx context.Context, address string) (http.Handler,
	error), listen func() (net.Listener, error)) bool {
	address := os.Getenv(variable)
	if address == "" {
		return false
	}
	var handler http.Handler
	var err error
	for range 100 { // the store may be down when the replica starts
		if handler, err = newHandler(context.Background(), address); err == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	var listener net.Listener
	if err == nil {
		listener, err = listen()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() { _ = http.Serve(listener, handler) }() // ends with the process
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return true
}

// NewKeyring returns the keys that all replicas have.
func NewKeyring() (*keys.Keyring, error) {
	key, err := keys.NewKey("k1", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		return nil, err
	}
	return keys.NewKeyring(key)
}

type order struct {
	Flow string `json:"flow"`
}

type consent struct {
	Reason string `json:"reason"`
}

// newTill serves a tool that asks for consent and charges.
func newTill(guard store.Guard, charges string) (http.Handler, error) {
	ring, err := NewKeyring()
	if err != nil {
		return nil, err
	}
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "till", Version: "1.0.0"},
		Roundtrip: roundtrip.Options{
			Sealer: ring, RequireSharedKey: true, Guard: guard,
		},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "charge", Description: "Charges once."}, func(
		ctx context.Context, _ *server.ToolCall, in order,
	) (protocol.CallToolOutcome, error) {
		if _, ok := roundtrip.AcceptedContent[consent](ctx, "consent"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[consent]("consent", "Charge?")), nil
		}
		if err := appendLine(charges, in.Flow); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // it may be killed here
		return server.Text("charged"), nil
	})
	return serverhttp.New(srv, nil)
}

// appendLine appends a line in one write, which outlives the process.
func appendLine(name, line string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, line)
	return err
}
