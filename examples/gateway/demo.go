package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// demo starts everything as processes and has two users call through the
// gateway at the same time.
func demo(ctx context.Context, stdout io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var processes processes
	defer func() { err = errors.Join(err, processes.stop()) }()
	official, err := processes.start(ctx, "-official", "127.0.0.1:0")
	if err != nil {
		return err
	}
	rondo, err := processes.start(ctx, "-rondo", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gateway, err := processes.start(ctx, "-serve", "127.0.0.1:0",
		"-user", "alice=alice", "-user", "bob=bob",
		"-upstream", "ship="+official.address, "-upstream", "data="+rondo.address+"/mcp")
	if err != nil {
		return err
	}

	table := &table{out: stdout, seats: 2, next: make(chan struct{})}
	var users sync.WaitGroup
	failures := make([]error, 2)
	for n, name := range []string{"alice", "bob"} {
		users.Go(func() {
			if failures[n] = user(ctx, gateway.address+"/mcp", name, table); failures[n] != nil {
				cancel() // the other one waits at the table
			}
		})
	}
	users.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "\n== /metrics of the gateway")
	if err := metrics(ctx, gateway.address+"/metrics", stdout); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "\n== its log")
	return processes.log(gateway, stdout)
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
		Era:  protocol.Legacy,
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

// processes are children that run this program.
type processes struct{ running []*process }

type process struct {
	cmd     *exec.Cmd
	address string
	stderr  bytes.Buffer
}

// start runs this program with args and waits for its address.
func (ps *processes) start(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ps.running = append(ps.running, p)
	p.address, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s did not start: %w", strings.Join(args, " "), err)
	}
	p.address = strings.TrimSpace(p.address)
	return p, nil
}

// log stops a process and prints what it logged about questions.
func (ps *processes) log(p *process, stdout io.Writer) error {
	if err := ps.stop(); err != nil {
		return err
	}
	lines := bufio.NewScanner(&p.stderr)
	for lines.Scan() {
		var entry struct {
			Msg        string  `json:"msg"`
			Upstream   string  `json:"upstream_session"`
			Downstream string  `json:"downstream_session"`
			Message    string  `json:"message"`
			Action     string  `json:"action"`
			Duration   float64 `json:"duration_ms"`
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			return fmt.Errorf("the gateway logged %q: %w", lines.Text(), err)
		}
		name, _, _ := strings.Cut(entry.Upstream, "/")
		fmt.Fprintf(stdout, "%-21s %s -> %-5s %s %s\n", entry.Msg, name, entry.Downstream,
			entry.Message, entry.Action)
	}
	return lines.Err()
}

// stop ends what is still running.
func (ps *processes) stop() error {
	var errs []error
	for _, p := range ps.running {
		_ = p.cmd.Process.Signal(syscall.SIGINT)
		if err := p.cmd.Wait(); err != nil {
			errs = append(errs,
				fmt.Errorf("%s: %w\n%s", strings.Join(p.cmd.Args[1:], " "), err, &p.stderr))
		}
	}
	ps.running = nil
	return errors.Join(errs...)
}
