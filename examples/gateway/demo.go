package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	frontdoor "github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
)

// run starts two upstreams and a gateway, and has two users call through the gateway at the same
// time.
func run(ctx context.Context, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ship, stop, err := serve(officialUpstream())
	if err != nil {
		return err
	}
	defer stop()
	database, err := rondoUpstream()
	if err != nil {
		return err
	}
	data, stop, err := serve(database)
	if err != nil {
		return err
	}
	defer stop()
	logs := &readyLog{Writer: stderr, left: 2, ready: make(chan struct{})}
	registry := prometheus.NewRegistry()
	g, err := newGateway(logs, registry, []frontdoor.Upstream{
		{Name: "ship", Connect: frontdoor.HTTP(ship, nil)},
		{Name: "data", Connect: frontdoor.HTTP(data+"/mcp", nil)},
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = g.Shutdown(ctx) // people have had their time
	}()
	handler, err := newHandler(g, registry)
	if err != nil {
		return err
	}
	select {
	case <-logs.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	gateway, stop, err := serve(handler)
	if err != nil {
		return err
	}
	defer stop()
	return callTogether(ctx, gateway, stdout)
}

// A readyLog passes log entries on, and closes ready when the gateway has connected to all of its
// upstreams.
type readyLog struct {
	io.Writer
	left  int
	ready chan struct{}
}

// Write implements [io.Writer]. The logger writes one entry at a time.
func (l *readyLog) Write(entry []byte) (int, error) {
	if bytes.Contains(entry, []byte(`"gateway.upstream_ready"`)) {
		if l.left--; l.left == 0 {
			close(l.ready)
		}
	}
	return l.Writer.Write(entry)
}

// serve serves on a port that is free, and returns what ends that.
func serve(handler http.Handler) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = srv.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() { srv.Close() }, nil
}

// callTogether has two users call, and prints the metrics of the gateway then.
func callTogether(ctx context.Context, gateway string, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	table := &table{out: stdout, seats: 2, next: make(chan struct{})}
	var users sync.WaitGroup
	failures := make([]error, 2)
	for n, name := range []string{"alice", "bob"} {
		users.Go(func() {
			if failures[n] = user(ctx, gateway+"/mcp", name, table); failures[n] != nil {
				cancel() // the other one waits at the table
			}
		})
	}
	users.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "\n== /metrics of the gateway")
	return metrics(ctx, gateway+"/metrics", stdout)
}

// user calls a tool of each upstream and answers what it is asked.
func user(ctx context.Context, gateway, name string, table *table) error {
	transport, err := clienthttp.New(gateway,
		&clienthttp.Options{Header: http.Header{"Authorization": {"Bearer " + name}}})
	if err != nil {
		return err
	}
	var seen []string
	c, err := client.New(transport, &client.Options{
		Info: protocol.Implementation{Name: name, Version: "1.0.0"},
		Era:  map[string]protocol.Era{"alice": protocol.Modern, "bob": protocol.Legacy}[name],
		ElicitForm: func(ctx context.Context,
			q *client.FormQuestion) (*protocol.ElicitResult, error) {
			seen = append(seen, q.Message)
			table.say("%s is asked: %s", name, q.Message)
			if err := table.everybodyIsAsked(ctx); err != nil {
				return nil, err
			}
			if strings.HasPrefix(q.Message, "Deploy") {
				return client.Accept(map[string]string{"reason": name + " said so"})
			}
			return client.Accept(
				map[string]string{"name": map[string]string{"alice": "eu", "bob": "us"}[name]})
		},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, call := range []struct {
		tool string
		args any
	}{
		{"ship_deploy", Deploy{Env: name + "-production"}},
		{"data_database", Database{Name: name + "-orders"}},
	} {
		result, err := c.CallTool(ctx, call.tool, call.args)
		if err != nil {
			return fmt.Errorf("%s calls %s: %w", name, call.tool, err)
		}
		table.say("%s gets: %s", name, result.Content[0].(*protocol.TextContent).Text)
	}
	for _, message := range seen {
		if !strings.Contains(message, name) {
			return fmt.Errorf("%s was asked %q, which is not theirs", name, message)
		}
	}
	if len(seen) != 2 {
		return fmt.Errorf("%s was asked %d questions, want 2", name, len(seen))
	}
	return nil
}

// A table is where users sit: nobody answers before all have been asked.
type table struct {
	mu    sync.Mutex
	out   io.Writer
	seats int
	asked int
	next  chan struct{} // closed when all have been asked
}

func (t *table) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, format+"\n", args...)
}

func (t *table) everybodyIsAsked(ctx context.Context) error {
	t.mu.Lock()
	next := t.next
	if t.asked++; t.asked == t.seats {
		close(next)
		t.asked, t.next = 0, make(chan struct{})
	}
	t.mu.Unlock()
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// metrics prints the series of elicitations that are not zero.
func metrics(ctx context.Context, url string, stdout io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "elicitation_") && !strings.HasSuffix(line, " 0") &&
			!strings.Contains(line, "_bucket") && !strings.Contains(line, "_sum") {
			fmt.Fprintln(stdout, line)
		}
	}
	return lines.Err()
}
