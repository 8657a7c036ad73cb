package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/protocol"
)

// wantError checks that an error names its package once, and contains a text and the next step.
func wantError(t *testing.T, err error, want, step string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want …%s…", want)
	}
	text := err.Error()
	if !strings.HasPrefix(text, "client: ") || !strings.Contains(text, want) ||
		!strings.Contains(text, step) {
		t.Errorf("got %q, want client: …%s… and %q", text, want, step)
	}
	if twice := errtext.RepeatedPrefix(err, "client", "clienthttp", "server",
		"serverhttp"); twice != "" {
		t.Errorf("%s stands twice: %s", twice, text)
	}
}

func TestErrorsSayWhatToDoNext(t *testing.T) {
	lost := func(cause error) error {
		return &client.TransportError{Method: "tools/call", Err: cause}
	}
	cause := client.ErrStreamEnded // this cause has its own prefix
	unrun := protocol.ErrNotRun
	for _, test := range []struct {
		err  error
		step string
	}{
		{client.ErrClosed, "create a new one"},
		{client.ErrStreamEnded, "start the server again"},
		{client.ErrSubscriptionEnded, "subscribe again"},
		{client.ErrMessageTooLong, "StreamOptions.MaxLineBytes"},
		{client.ErrOverrun, "subscribe again"},
		{lost(errors.New("x")), "may have run"},
		{&client.TransportError{Method: "tools/list", Err: errors.New("x")}, "call again"},
		{lost(cause), "start the server again"},
		{lost(&client.ExitError{Err: io.EOF}), "start it again"},
		{lost(protocol.ErrSessionGone), "may have run: look before you call it again; the next call"},
		{lost(unrun), "did not run; see that the server can be reached and call again"},
		{lost(fmt.Errorf("%w: %w", unrun, protocol.ErrSessionGone)), "gone; call again"},
		{lost(fmt.Errorf("%w: %w", cause, unrun)), "start the server again"},
		{lost(client.ErrMessageTooLong), "may have run"},
		{lost(&clienthttp.StatusError{Status: 401}), "still valid"},
		{lost(&clienthttp.StatusError{Status: 403}), "scopes"},
		{lost(&clienthttp.StatusError{Status: 403}), "the host in the URL"},
		{lost(&clienthttp.StatusError{Status: 302}), "use that URL"},
		{lost(&clienthttp.StatusError{Status: 404}), "check that the URL"},
		{lost(&clienthttp.StatusError{Status: 429}), "later"},
		{lost(&clienthttp.StatusError{Status: 503}), "may have run: look before you call it again, later"},
		{&client.TransportError{Method: "tools/list", Err: &clienthttp.StatusError{Status: 503}},
			"try again later"},
		{&client.ResponseError{Method: "tools/call", Err: cause}, "tell its operator"},
		{&client.ResponseError{Method: "tools/call", Err: cause}, "may have run"},
		{&client.QuestionError{Key: "k", Kind: protocol.KindElicitForm, Err: client.ErrUndeclared},
			"give Options its handler"},
		{&client.QuestionError{Key: "k", Kind: protocol.KindElicitURL, Err: cause},
			"Options.AllowURL"},
		{&client.QuestionError{Key: "k", Kind: protocol.KindElicitForm, Err: cause},
			"tell the server's operator"},
		{&client.AnswerError{Key: "k", Kind: protocol.KindElicitForm, Err: cause},
			"start the call again"},
		{&client.ExitError{Err: cause}, "start it again"},
	} {
		t.Run(fmt.Sprintf("%T %s", test.err, test.step), func(t *testing.T) {
			wantError(t, test.err, "", test.step)
		})
	}
}

// refusedStateError is a server's error for an invalid state, exactly as on the wire.
const refusedStateError = `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state","reference":"7b1c"}}`

// The error of a refused state has the reference and asks for a new call.
func TestRefusedStateSaysToStartAgain(t *testing.T) {
	var said protocol.Error
	noError(t, json.Unmarshal([]byte(refusedStateError), &struct {
		Code    *int64           `json:"code"`
		Message *string          `json:"message"`
		Data    *json.RawMessage `json:"data"`
	}{&said.Code, &said.Message, &said.Data}))
	for name, test := range map[string]struct {
		change func(e *protocol.Error)
		hint   bool
		ref    string
	}{
		"as it is": {func(*protocol.Error) {}, true, `reference "7b1c"`},
		"without a reference": {
			func(e *protocol.Error) {
				e.Data = json.RawMessage(`{"reason":"invalid_request_state"}`)
			}, true,
			"start the call again",
		},
		"a hostile reference": {func(e *protocol.Error) {
			e.Data = json.RawMessage(
				`{"reason":"invalid_request_state","reference":"\u001b[2J\n` + strings.Repeat("x", 999) + `"}`,
			)
		}, true, `"\x1b[2J\nxxx`},
		"a reference of no text": {
			func(e *protocol.Error) {
				e.Data = json.RawMessage(`{"reason":"invalid_request_state","reference":7}`)
			},
			false, "",
		},
		"another reason": {
			func(e *protocol.Error) {
				e.Data = json.RawMessage(`{"reason":"else","reference":"7b1c"}`)
			},
			false, "",
		},
		"no data": {func(e *protocol.Error) { e.Data = nil }, false, ""},
		"data that is no object": {
			func(e *protocol.Error) { e.Data = json.RawMessage(`[]`) }, false, "",
		},
		"data that is not JSON": {
			func(e *protocol.Error) { e.Data = json.RawMessage(`{"reason"`) }, false, "",
		},
		"the number of something": {
			func(e *protocol.Error) { e.Code = protocol.CodeInternalError }, false, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := said
			test.change(&e)
			peer := answering(func(req *protocol.Request) (response, error) {
				if member(t, req, "requestState") == "" {
					asks := ask(`"inputRequests":{"who":` + nameForm + `},"requestState":"s"`)
					return reply(req, asks)
				}
				return refuse(req, &e)
			})
			_, err := callOnce(t, peer, &client.Options{ElicitForm: acceptName})
			if got, ok := protocol.AsError(err); !ok || got != &e {
				t.Errorf("got %v, which is not what the server said", err)
			}
			if !test.hint {
				wantEqual(t, "text", err.Error(), e.Error())
				return
			}
			wantError(t, err, test.ref, "start the call again")
			if len(err.Error()) > 400 {
				t.Errorf("%d bytes of error", len(err.Error()))
			}
		})
	}
}

// A silent server is taken for a legacy server. Warn reports that, and the error names the option.
func TestSilentServerNamesTheProbeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reason error
		s := &legacyServer{handle: on("server/discover", `"silence"`)}
		c := newClient(t, s.onLines(t, &client.StreamOptions{ProbeTimeout: 7 * time.Second}),
			&client.Options{Warn: func(_ context.Context, err error) { reason = err }})
		wantCall(t, c, "t")
		wantError(t, reason, "7s", "StreamOptions.ProbeTimeout")
		wantError(t, reason, "session of revision 2025-11-25", "starts slowly")
	})
}

// A bridge with its own session refuses the client's session. The error names the helpful option.
func TestBridgeThatInitializesNamesTheEra(t *testing.T) {
	bridge := func() *client.Stream {
		initialized := false
		return (&legacyServer{handle: func(m legacyMessage) string {
			if m.Method == "initialize" && !initialized {
				initialized = true
				return ""
			}
			if !initialized || m.Method == "initialize" {
				initialized = true // by the client's first message
				return `"error":{"code":-32600,"message":"Invalid Request: Server already initialized"}`
			}
			return ""
		}}).onLines(t, nil)
	}
	_, err := newClient(t, bridge(), nil).CallTool(t.Context(), "t", nil)
	wantError(t, err, "no common revision", "Options.Era")
	wantCall(t, newClient(t, bridge(),
		&client.Options{Era: protocol.Legacy}), "t")
}

// Every error names its packages once, over HTTP and lines and in both eras.
func TestTransportErrorsNameTheirPackagesOnce(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, legacyMessage){
		"400": says(400, "", ""), "401": says(401, "", ""), "404": says(404, "", ""),
		"500": says(500, "", ""), "204": says(204, "", ""),
		"stream": says(200, "text/event-stream", ": x\n\n"),
		"gone":   func(http.ResponseWriter, legacyMessage) { panic(http.ErrAbortHandler) },
		"hang":   nil,
	} {
		for _, modern := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s modern %v", name, modern), func(t *testing.T) {
				s := &legacyHTTP{legacyServer: &legacyServer{}, session: "s", noGet: true}
				if modern {
					s.refuse = saysJSON(200, bothEras)
				}
				tr := dialHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch m := peek(t, r); {
					case m.Method != "tools/call":
						s.ServeHTTP(w, r)
					case answer == nil:
						w.(http.Flusher).Flush()
						<-r.Context().Done()
					default:
						answer(w, m)
					}
				}), nil)
				c := newClient(t, tr, &client.Options{Timeout: -1})
				_, err := c.Negotiate(t.Context())
				noError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				if name == "hang" {
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				defer cancel()
				_, err = c.CallTool(ctx, "t", nil)
				wantError(t, err, "clienthttp: ", "; ")
				noError(t, tr.Close())
				_, err = c.CallTool(t.Context(), "t", nil)
				wantError(t, err, "clienthttp: ", "; ")
				noError(t, c.Close())
				_, err = c.CallTool(t.Context(), "t", nil)
				wantError(t, err, "closed", "create a new one")
			})
		}
	}
	writes := func(text string) func(*client.Stream, *io.PipeWriter) {
		return func(_ *client.Stream, w *io.PipeWriter) { _, _ = io.WriteString(w, text+"\n") }
	}
	for name, ends := range map[string]func(*client.Stream, *io.PipeWriter){
		"closed": func(s *client.Stream, _ *io.PipeWriter) { _ = s.Close() },
		"ended":  func(_ *client.Stream, w *io.PipeWriter) { _ = w.Close() },
		"broken": func(_ *client.Stream, w *io.PipeWriter) {
			_ = w.CloseWithError(client.ErrMessageTooLong)
		},
		"no answer": writes(`{"jsonrpc":"2.0","id":1,"result":[]}`),
		"too long":  writes(strings.Repeat("x", 2000)),
	} {
		t.Run("lines "+name, func(t *testing.T) {
			in, out := io.Pipe()
			requests, toServer := io.Pipe()
			s := client.NewStream(in, toServer, &client.StreamOptions{MaxLineBytes: 1000})
			c, err := client.New(s, &client.Options{Era: protocol.Modern})
			noError(t, err)
			go func() {
				// An earlier response would have no request.
				_, _ = bufio.NewReader(requests).ReadString('\n')
				go func() { _, _ = io.Copy(io.Discard, requests) }()
				ends(s, out)
			}()
			_, err = c.CallTool(t.Context(), "t", nil)
			wantError(t, err, "tools/call", "; ")
			_ = c.Close()
		})
	}
}

// TestTransportErrorsTellAnswersFromSilence: errors say "no response" only without an HTTP status.
func TestTransportErrorsTellAnswersFromSilence(t *testing.T) {
	for _, test := range []struct {
		cause error
		want  string
	}{
		{&clienthttp.StatusError{Status: 403},
			"client: tools/call: clienthttp: HTTP status 403 Forbidden; "},
		{errors.New("connection refused"), "client: tools/call: no response: connection refused; "},
	} {
		err := &client.TransportError{Method: "tools/call", Err: test.cause}
		if got := err.Error(); !strings.HasPrefix(got, test.want) {
			t.Errorf("got %q, want %q first", got, test.want)
		}
	}
}
