package gosdk_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// Whoever installs two adapters is told, and nobody is let through.
func TestSecondAdapterIsReported(t *testing.T) {
	server := single(t, asks(toolText("done")))
	o := &observer{}
	installWith(t, server, &gosdk.Options{Options: roundtrip.Options{Observer: o}})
	got := dialWire(t, server).call("t", "")
	got.wantError(protocol.CodeInternalError, 200)
	if !strings.Contains(got.Error.Message, "two adapters") {
		t.Errorf("got %s", got.body)
	}
}

// One adapter is installed once, however often it is told to, and by whomever.
func TestInstallingAgainDoesNothing(t *testing.T) {
	server := single(t, asks(toolText("done")))
	loaded, _ := adapters.Load(server)
	a := loaded.(*gosdk.Adapter)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := a.Install(server); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	dialWire(t, server).call("t", "").wantText("done")
	if n := gosdk.CountInstalled(a); n != 1 {
		t.Errorf("the adapter knows %d servers", n)
	}
	if err := a.Install(nil); err == nil {
		t.Error("there is no server, and no error")
	}
	if _, err := a.Transport(nil, &mcp.IOTransport{}).Connect(t.Context()); err == nil {
		t.Error("there is no server to connect, and no error")
	}
}

// A server with Install that the SDK serves alone is an error at the first request of a
// modern revision, which says what is missing. Older revisions lack nothing.
func TestServingWithoutTheAdapter(t *testing.T) {
	open := map[string]func(*testing.T, *mcp.Server, *person, string) peer{
		"sdk/http": func(t *testing.T, server *mcp.Server, who *person, revision string) peer {
			endpoint, recorder := serve(t,
				mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
					&mcp.StreamableHTTPOptions{Stateless: revision == modern}))
			return dialSDK(t, who, false, revision, &mcp.StreamableClientTransport{
				Endpoint: endpoint, HTTPClient: &http.Client{Transport: recorder}})
		},
		"sdk/memory": func(t *testing.T, server *mcp.Server, who *person, revision string) peer {
			ours, theirs := mcp.NewInMemoryTransports()
			connectRaw(t, server, theirs)
			return dialSDK(t, who, false, revision, ours)
		},
		"sdk/sse": func(t *testing.T, server *mcp.Server, who *person, revision string) peer {
			if revision == modern {
				t.Skip("the transport is of older revisions")
			}
			endpoint, recorder := serve(t,
				mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
			return dialSDK(t, who, false, revision, &mcp.SSEClientTransport{Endpoint: endpoint,
				HTTPClient: &http.Client{Transport: recorder}})
		},
		"rondo/stdio": func(t *testing.T, server *mcp.Server, who *person, revision string) peer {
			r1, w1 := io.Pipe()
			r2, w2 := io.Pipe()
			t.Cleanup(func() { _ = w1.Close(); _ = w2.Close() })
			connectRaw(t, server, &mcp.IOTransport{Reader: r1, Writer: w2})
			return dialRondo(t, who, false, revision,
				client.NewStream(r2, w1, &client.StreamOptions{ProbeTimeout: patience}))
		},
	}
	for over, open := range open {
		for _, revision := range []string{modern, legacy} {
			t.Run(over+"/"+revision, func(t *testing.T) {
				o, server := &observer{}, askTwice()
				a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: o}})
				if err := a.Install(server); err != nil {
					t.Fatal(err)
				}
				got, err := open(t, server, sure(t), revision).do(within(t), "t")
				if revision == legacy {
					if err != nil || got != "accept and accept" {
						t.Errorf("got %q, %v", got, err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), "Adapter.Handler") ||
					!strings.Contains(err.Error(), "Adapter.Transport") {
					t.Errorf("got %q, %v, want an error that says what is missing", got, err)
				}
				if n := o.count(isBug); n != 1 {
					t.Errorf("%d events, want 1", n)
				}
			})
		}
	}
}

func isBug(e event.Event) bool {
	_, ok := e.(event.ServerBug)
	return ok
}

// connectRaw connects a server without the adapter's transport.
func connectRaw(t *testing.T, server *mcp.Server, transport mcp.Transport) {
	t.Helper()
	session, err := server.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
}

// The adapter does not keep servers that nobody else keeps.
func TestServersAreForgotten(t *testing.T) {
	a := newAdapter(t, nil)
	for range 100 {
		if err := a.Install(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"},
			nil)); err != nil {
			t.Fatal(err)
		}
	}
	ctx := within(t)
	for gosdk.CountInstalled(a) > 1 { // the last may still be on the stack
		runtime.GC()
		runtime.Gosched()
		if ctx.Err() != nil {
			t.Fatalf("the adapter keeps %d servers", gosdk.CountInstalled(a))
		}
	}
}

// Installing costs no self-test: that was done by the first New of the process.
func TestInstallIsCheap(t *testing.T) {
	a := newAdapter(t, nil)
	servers := make([]*mcp.Server, 0, 101)
	for range 101 {
		servers = append(servers, mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil))
	}
	next := 0
	got := testing.AllocsPerRun(100, func() {
		_ = a.Install(servers[next])
		next++
	})
	if got > maxInstallAllocations {
		t.Errorf("%v allocations, want at most %d", got, maxInstallAllocations)
	}
}

// maxInstallAllocations is what Install needs, and a little more for the growth of a map.
const maxInstallAllocations = 24

// Middleware that is added after Install sees each request of a flow, and the SDK's types.
func TestMiddlewareRunsAroundTheAdapter(t *testing.T) {
	server := askTwice()
	a := newAdapter(t, nil)
	if err := a.Install(server); err != nil {
		t.Fatal(err)
	}
	var outside []string
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			if r, ok := result.(*mcp.CallToolResult); ok && method == protocol.MethodCallTool {
				outside = append(outside,
					map[bool]string{true: "asks", false: "done"}[r.NeedsInput()])
			}
			return result, err
		}
	})
	adapters.Store(server, a)
	t.Cleanup(func() { adapters.Delete(server) })
	w := dialWire(t, server)
	first := w.call("t", "")
	second := w.retry("t", first, accepts(first.onlyKey()))
	w.retry("t", second, accepts(second.onlyKey())).wantText("accept and accept")
	if got := strings.Join(outside, " "); got != "asks asks done" {
		t.Errorf("middleware outside of the adapter saw %q", got)
	}
}

// The first New of a process runs the self-test, which takes thousands of allocations.
func TestNewTestsTheSDKOnce(t *testing.T) {
	if got := testing.AllocsPerRun(10, func() { newAdapter(t, nil) }); got > 200 {
		t.Errorf("New makes %v allocations", got)
	}
}

// Each test that the package comment names exists.
func TestPromisesHaveTests(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests []byte
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, text...)
	}
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(doc), -1)
	if len(named) < 10 {
		t.Errorf("the package comment names %d tests", len(named))
	}
	for _, name := range named {
		if !bytes.Contains(tests, []byte("func "+name+"(")) {
			t.Errorf("there is no %s", name)
		}
	}
}
