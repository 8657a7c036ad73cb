package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// childEnv makes the test binary a server. Its value names the behaviour; see [TestChild].
const childEnv = "RONDO_CLIENT_CHILD"

// TestChild is not a test: it runs the server that other tests start.
func TestChild(t *testing.T) {
	mode := os.Getenv(childEnv)
	if mode == "" {
		return
	}
	switch mode {
	case "serve":
	case "garbage":
		fmt.Println("Listening…")
		fmt.Println("[]")
	case "flood":
		for range 1 << 10 {
			fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 170))
		}
	case "dead":
		fmt.Fprintln(os.Stderr, "starting")
		fmt.Fprintln(os.Stderr, "no such database\x1b[2J")
		os.Exit(7)
	case "deaf", "stubborn":
		if mode == "stubborn" {
			signal.Ignore(syscall.SIGTERM)
		}
		fmt.Println(ready)
		time.Sleep(time.Hour)
	case "mute":
		os.Stdout.Close()
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "holder":
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "parent": // the server leaves a process behind that holds what it inherited
		heir := childCommand("holder")
		heir.Stdin, heir.Stdout, heir.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := heir.Start(); err != nil {
			fmt.Println(err)
			return
		}
		os.Exit(4)
	}
	srv := newEcho(t)
	server.AddRawTool(srv, server.Tool{Name: "wizard"}, wizard)
	server.AddRawTool(srv, server.Tool{
		Name: "die",
	}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(3)
		return nil, nil
	})
	server.AddRawTool(srv, server.Tool{
		Name: "hang",
	}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		err := call.Progress(ctx, 1, 0, "hanging")
		<-ctx.Done()
		return nil, err
	})
	if err := srv.ServeStdio(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The constant ready is the default output of a child at its start.
const ready = `{"jsonrpc":"2.0","method":"ready"}`

type (
	where struct {
		Region string `json:"region" enum:"eu,us"`
	}
	how struct {
		Cores int `json:"cores" minimum:"1" default:"2"`
	}
	who struct {
		Email string `json:"email" format:"email"`
	}
)

// wizard asks three times, each question depending on the previous answer.
func wizard(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	first, ok := roundtrip.AcceptedContent[where](ctx, "where")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[where]("where", "Which region?")), nil
	}
	second, ok := roundtrip.AcceptedContent[how](ctx, "how")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[how]("how", "How big in "+first.Region+
			"?")), nil
	}
	third, ok := roundtrip.AcceptedContent[who](ctx, "who")
	if !ok {
		return roundtrip.InputRequired(
			roundtrip.Elicit[who]("who", fmt.Sprintf("Who pays for %d?", second.Cores))), nil
	}
	return server.Text(fmt.Sprintf("%s: %d for %s", first.Region, second.Cores, third.Email)), nil
}

func childCommand(mode string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+mode)
	return cmd
}

func startChild(t *testing.T, cmd *exec.Cmd, opts *client.CommandOptions) *client.Process {
	t.Helper()
	testkit.CheckLeaks(t)
	p, err := client.Command(cmd, opts)
	noError(t, err)
	t.Cleanup(func() {
		p.Close()
		select {
		case <-p.Done():
		default:
			t.Error("Close returned before the process was gone")
		}
		if cmd.ProcessState == nil {
			t.Error("process was not waited for")
		}
	})
	return p
}

func TestThreeRoundsOverStdio(t *testing.T) {
	p := startChild(t, childCommand("serve"), nil)
	var asked []string
	var mu sync.Mutex
	c, err := client.New(p, &client.Options{ElicitForm: func(_ context.Context,
		q *client.FormQuestion) (elicited, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q.Message)
		return client.Accept(map[string]map[string]any{
			"where": {"region": "eu"}, "how": nil, "who": {"email": "ada@example.com"},
		}[q.Key])
	}})
	noError(t, err)
	r, err := c.CallTool(t.Context(), "wizard", nil)
	noError(t, err)
	wantEqual(t, "the result", r.Content[0].(*protocol.TextContent).Text,
		"eu: 2 for ada@example.com")
	wantEqual(t, "asked", fmt.Sprint(asked), "[Which region? How big in eu? Who pays for 2?]")
	noError(t, c.Close())
	noError(t, p.Close())
	if _, err := p.Handle(t.Context(), request(1, "a", ""), nil); !errors.Is(err,
		client.ErrClosed) {
		t.Errorf("after close: got %v, want %v", err, client.ErrClosed)
	}
}

func TestNoisyProcess(t *testing.T) {
	for _, test := range []struct {
		mode     string
		isBroken bool // standard error goes to a broken writer
	}{{"garbage", false}, {"flood", false}, {"flood", true}} {
		t.Run(fmt.Sprint(test.mode, test.isBroken), func(t *testing.T) {
			var reports []string
			cmd := childCommand(test.mode)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if test.isBroken {
				cmd.Stderr = broken{}
			}
			p := startChild(t, cmd, &client.CommandOptions{Stream: client.StreamOptions{
				Violation: func(err error) { reports = append(reports, err.Error()) },
			}})
			c, err := client.New(p, nil)
			noError(t, err)
			_, err = c.CallTool(t.Context(), "echo", map[string]any{"text": "x"})
			noError(t, err)
			noError(t, c.Close())
			what := fmt.Sprintf("two reports in %q", reports)
			wantEqual(t, what, len(reports) == 2, test.mode == "garbage")
			isFlood := test.mode == "flood" && !test.isBroken
			if got := stderr.Len(); (got > 1_000_000) != isFlood {
				t.Errorf("got %d bytes of standard error", got)
			}
		})
	}
}

// The type broken is an io.Writer like a log file on a full disk.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk is full") }

func TestProcessThatDies(t *testing.T) {
	tests := []struct {
		mode, tool string
		words      []string
		stderr     string
	}{
		{"dead", "echo", []string{"exit status 7", `"no such database\x1b[2J"`},
			"starting\nno such database\x1b[2J\n"},
		{"serve", "die", []string{"exit status 3", "out of memory"}, "out of memory\n"},
		{"parent", "echo", []string{"exit status 4"}, ""},
	}
	for _, test := range tests {
		t.Run(test.mode, func(t *testing.T) {
			p := startChild(t, childCommand(test.mode), nil)
			c, err := client.New(p, &client.Options{Timeout: -1})
			noError(t, err)
			hanging := make(chan error, 1)
			if test.mode == "serve" {
				heard := make(chan struct{})
				h, err := client.New(unclosed{p}, &client.Options{Timeout: -1})
				noError(t, err)
				go func() {
					_, err := h.CallTool(closeOnProgress(t, heard), "hang", nil)
					hanging <- err
				}()
				<-heard
				// The ids of two clients on one stream would clash.
				if _, err := c.CallTool(t.Context(), "echo",
					map[string]any{"text": "x"}); err == nil {
					t.Error("an id that is taken was sent")
				}
			} else {
				hanging <- client.ErrStreamEnded
			}
			_, err = c.CallTool(t.Context(), test.tool, map[string]any{})
			exit, ok := errors.AsType[*client.ExitError](err)
			if !ok || !errors.Is(err, client.ErrStreamEnded) {
				t.Fatalf("got %v, want an ExitError", err)
			}
			if _, ok := errors.AsType[*client.TransportError](err); !ok {
				t.Errorf("got %T, want a TransportError", err)
			}
			for _, word := range test.words {
				testkit.WantPart(t, "the error", err.Error(), word)
			}
			wantEqual(t, "got the standard error", exit.Stderr, test.stderr)
			wantIs(t, "other request", <-hanging, client.ErrStreamEnded)
			wantEqual(t, "Err", p.Err(), error(exit))
			wantEqual(t, "close", c.Close(), error(exit))
		})
	}
}

// The type unclosed hides a peer's Close method, so that closing one of two clients leaves it open.
type unclosed struct{ *client.Process }

func (unclosed) Close() error { return nil }

func TestProcessThatClosesItsOutput(t *testing.T) {
	p := startChild(t, childCommand("mute"), nil)
	_, err := p.Handle(t.Context(), request(1, "a", ""), nil)
	if _, exited := errors.AsType[*client.ExitError](err); exited ||
		!errors.Is(err, client.ErrStreamEnded) {
		t.Errorf("got %v, want %v", err, client.ErrStreamEnded)
	}
	wantEqual(t, "Err while the process runs", p.Err(), nil)
	noError(t, p.Close())
}

func TestProcessThatStays(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals on Windows")
	}
	for _, mode := range []string{"deaf", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			up := make(chan struct{})
			p := startChild(t, childCommand(mode), &client.CommandOptions{
				Grace: 50 * time.Millisecond,
				Stream: client.StreamOptions{Violation: func(err error) {
					if strings.Contains(err.Error(), `"ready"`) {
						close(up)
					}
				}},
			})
			<-up
			pending := make(chan error, 1)
			go func() {
				_, err := p.Handle(t.Context(), request(1, "a", ""), nil)
				pending <- err
			}()
			errs := make(chan error, 2)
			for range 2 {
				go func() { errs <- p.Close() }()
			}
			// Close itself ended the process.
			if first, second := <-errs, <-errs; first != nil || second != nil || p.Err() != nil {
				t.Errorf("close: got %v and %v, and afterwards %v, want no error", first, second,
					p.Err())
			}
			select {
			case <-p.Done():
			default:
				t.Error("the process is not gone")
			}
			wantIs(t, "pending request", <-pending, client.ErrClosed)
		})
	}
}

func closeOnProgress(t *testing.T, heard chan struct{}) context.Context {
	return client.WithProgress(t.Context(),
		func(context.Context, *protocol.Progress) { close(heard) })
}

func TestContextKillsChild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	plain := childCommand("serve")
	cmd := exec.CommandContext(ctx, plain.Path, plain.Args[1:]...)
	cmd.Env = plain.Env
	p := startChild(t, cmd, nil)
	heard := make(chan struct{})
	c, err := client.New(p, nil)
	noError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(closeOnProgress(t, heard), "hang", nil)
		done <- err
	}()
	<-heard
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want an error that says how", err)
	}
	<-p.Done()
}

func TestCommandRefuses(t *testing.T) {
	testkit.CheckLeaks(t)
	missing := exec.Command("./no-such-program")
	stdin, stdout, started := childCommand("serve"), childCommand("serve"), childCommand("dead")
	stdin.Stdin, stdout.Stdout = strings.NewReader(""), io.Discard
	if err := started.Run(); err == nil {
		t.Fatal("child did not die")
	}
	started.Stdin, started.Stdout = nil, nil
	for name, cmd := range map[string]*exec.Cmd{"missing": missing, "Stdin": stdin,
		"Stdout": stdout, "started": started} {
		t.Run(name, func(t *testing.T) {
			if p, err := client.Command(cmd, nil); err == nil {
				t.Errorf("%s: got %v, want an error", name, p)
			}
		})
	}
}

func TestExitErrorWithoutState(t *testing.T) {
	cause := errors.New("no such process")
	err := &client.ExitError{Err: cause, Stderr: "\n \n"}
	if !errors.Is(err, cause) ||
		!strings.HasSuffix(err.Error(), ": no such process; start it again") {
		t.Errorf("got %q", err)
	}
}

func ExampleNewStream() {
	srv, err := server.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server.AddRawTool(srv, server.Tool{Name: "wizard"}, wizard)

	// Two pipes are a stream. A socket or a process is a stream, too.
	requests, toServer := io.Pipe()
	fromServer, responses := io.Pipe()
	go srv.ServeStream(context.Background(), requests, responses, nil)

	c, err := client.New(client.NewStream(fromServer, toServer, nil), &client.Options{
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (elicited, error) {
			fmt.Println(q.Message)
			return client.Accept(map[string]map[string]any{
				"where": {"region": "eu"}, "how": {"cores": 8}, "who": {"email": "ada@example.com"},
			}[q.Key])
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "wizard", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	// Output:
	// Which region?
	// How big in eu?
	// Who pays for 8?
	// eu: 8 for ada@example.com
}
