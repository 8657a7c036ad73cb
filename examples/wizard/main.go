// Wizard: a tool that asks one question after another, each of which depends on
// the answers before, lets the person go back and correct one, and charges money
// at the end. It is written as straight-line code; provision.go has it.
//
//	go run ./examples/wizard
//
// It runs twice in this process: with a client of revision 2026-07-28, where the
// handler is run again for every answer, and with one of 2025-11-25, where it
// waits. What the person sees is the same, and the money moves once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "wizard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		fmt.Fprintf(out, "== A %s client\n", era)
		if err := order(ctx, out, era); err != nil {
			return err
		}
	}
	return nil
}

// order has somebody order a database who changes their mind once.
func order(ctx context.Context, out io.Writer, era protocol.Era) error {
	ledger := &ledger{out, map[string]string{}}
	s := &shop{prices: &market{}, bank: ledger,
		notify: func(text string) { fmt.Fprintln(out, "   mail:", text) }}
	answers := []string{`{"name":"us"}`, `{"gigabytes":500}`, `{"change":"region"}`,
		`{"name":"eu"}`, `{}`, `{"change":"nothing"}`}
	return connect(ctx, s, era, func(c *client.Client) error {
		result, err := c.CallTool(ctx, "provision", Order{Name: "books"})
		if err != nil {
			return err
		}
		for _, block := range result.Content {
			if text, ok := block.(*protocol.TextContent); ok {
				fmt.Fprintln(out, "result:", text.Text)
			}
		}
		fmt.Fprintf(out, "charges: %d\n", len(ledger.receipts))
		return nil
	}, func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
		if len(answers) == 0 {
			return nil, errors.New("asked too often")
		}
		answer := answers[0]
		answers = answers[1:]
		fmt.Fprintf(out, "   asked: %s -> %s\n", q.Message, answer)
		return &protocol.ElicitResult{Action: protocol.ActionAccept,
			Content: json.RawMessage(answer)}, nil
	})
}

// connect runs a server and a client of it, over a stream in this process.
func connect(ctx context.Context, s *shop, era protocol.Era, use func(*client.Client) error,
	elicit func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error),
) error {
	srv, err := newServer(s, roundtrip.Options{Guard: store.NewMemoryGuard(0)})
	if err != nil {
		return err
	}
	defer srv.Close()
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	over := make(chan error, 1)
	go func() { over <- srv.ServeStream(ctx, serverIn, serverOut, nil) }()
	c, err := client.New(client.NewStream(clientIn, clientOut, nil),
		&client.Options{Era: era, ElicitForm: elicit})
	if err != nil {
		return err
	}
	err = use(c)
	c.Close()
	clientOut.Close()
	return errors.Join(err, <-over)
}

// market is never the same.
type market struct{ looks int }

func (m *market) Quote(_ context.Context, _ string, gigabytes int) (int, error) {
	m.looks++
	return 25*gigabytes + m.looks, nil
}

// ledger is a bank that knows its keys.
type ledger struct {
	out      io.Writer
	receipts map[string]string // by key
}

func (l *ledger) Charge(_ context.Context, key string, cents int) (string, error) {
	if l.receipts[key] == "" {
		l.receipts[key] = fmt.Sprint("receipt ", len(l.receipts)+1)
		fmt.Fprintf(l.out, "   bank: %d cents\n", cents)
	}
	return l.receipts[key], nil
}
