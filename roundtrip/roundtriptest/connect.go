package roundtriptest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// Server returns a subject in the test's process. newServer is called per connection: flows are
// independent: servers that must share something, such as a guard, share what newServer closes
// over. The server's internal errors are in the flow's error; its client gets "internal error".
func Server(newServer func() (*server.Server, error)) Subject {
	said := &reasons{}
	connect := func(t testing.TB, user string) protocol.Peer {
		srv, err := newServer()
		if err != nil {
			t.Fatalf("roundtriptest: the server: %v", err)
		}
		return Lines(func(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
			return srv.ServeStream(rpc.WithErrorSink(ctx, said.addError), r, w, nil)
		})(t, user)
	}
	return Subject{Connect: connect, reasons: said}
}

// Handler returns a subject of any SDK, served over HTTP on a free port, in the test's process.
// newHandler is called for each connection, as in [Server].
func Handler(newHandler func() (http.Handler, error)) Subject {
	said := &reasons{}
	connect := func(t testing.TB, _ string) protocol.Peer {
		handler, err := newHandler()
		if err != nil {
			t.Fatalf("roundtriptest: the handler: %v", err)
		}
		return dial(t, serveHandler(t, handler, said))
	}
	return Subject{Connect: connect, reasons: said}
}

func serveHandler(t testing.TB, handler http.Handler, said *reasons) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("roundtriptest: %v", err)
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context {
			return waiting.WithoutWire(rpc.WithErrorSink(context.Background(), said.addError))
		}}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(listener) }) // http.ErrServerClosed
	t.Cleanup(func() {
		_ = web.Close() // ends the connections, which are no longer needed
		serving.Wait()
		if closer, ok := handler.(interface{ Shutdown(context.Context) error }); ok {
			_ = closer.Shutdown(context.Background()) // nothing runs any more
		}
	})
	return "http://" + listener.Addr().String()
}

// URL returns a subject that runs elsewhere, in any language, served over HTTP at an endpoint such
// as http://127.0.0.1:8080/mcp.
func URL(endpoint string) Subject {
	return Subject{Connect: func(t testing.TB, _ string) protocol.Peer { return dial(t, endpoint) }}
}

func dial(t testing.TB, endpoint string) protocol.Peer {
	transport, err := clienthttp.New(endpoint, nil)
	if err != nil {
		t.Fatalf("roundtriptest: %v", err)
	}
	t.Cleanup(func() { _ = transport.Close() })
	return transport
}

// Command returns a subject that is a program in any language, started for each connection and
// served over its standard input and output. Its standard error is part of a flow's error.
//
//	subject := roundtriptest.Command("./server", "-stdio")
func Command(name string, args ...string) Subject {
	said := &reasons{}
	connect := func(t testing.TB, _ string) protocol.Peer {
		cmd := exec.Command(name, args...)
		cmd.Stderr = said
		process, err := client.Command(cmd, nil)
		if err != nil {
			t.Fatalf("roundtriptest: %v", err)
		}
		t.Cleanup(func() { _ = process.Close() })
		return process
	}
	return Subject{Connect: connect, reasons: said}
}

// Lines returns a Connect for servers that read and write lines of JSON. It calls serve for each
// connection. serve must return when r ends; then ctx is cancelled, too. An error of serve fails
// the test, unless it is ctx's or reports an ended stream.
func Lines(serve func(ctx context.Context, r io.ReadCloser,
	w io.WriteCloser) error) func(testing.TB, string) protocol.Peer {
	return func(t testing.TB, _ string) protocol.Peer {
		fromServer, toClient := io.Pipe()
		fromClient, toServer := io.Pipe()
		ctx, cancel := context.WithCancel(waiting.WithoutWire(context.Background()))
		ended := make(chan error, 1)
		go func() {
			err := serve(ctx, fromClient, toClient)
			_ = toClient.Close() // a pipe closes without error
			ended <- err
		}()
		stream := client.NewStream(fromServer, toServer, nil)
		t.Cleanup(func() {
			_ = stream.Close()
			_ = toServer.Close()
			cancel()
			err := <-ended
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) &&
				!errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("roundtriptest: serve: %v", err)
			}
		})
		return stream
	}
}

// maxReasons lines fit one mistake and its stack.
const maxReasons = 40

type reasons struct {
	mu    sync.Mutex
	lines []string
}

func (r *reasons) addError(err error) { r.addReason(err.Error()) }

func (r *reasons) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		r.addReason(strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

func (r *reasons) addReason(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	r.lines = slices.Clone(r.lines[max(0, len(r.lines)-maxReasons):])
}

func (r *reasons) takeReasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}
