package clienthttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/protocol"
)

// The function late returns a handler that sends part of a body and then nothing more.
func late(media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, body)
		<-r.Context().Done()
	}
}

func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// failures are the ways in which a request can fail, with a part of the error's text.
var failures = []struct {
	name string
	call http.HandlerFunc
	end  func(cancel func(), tr *clienthttp.Transport) // called a second after the request, or nil
	want string
}{
	{"deadline before the header", silent, nil, "deadline exceeded"},
	{"deadline within the body", late(media, `{"jsonrpc":`), nil, "deadline exceeded"},
	{"deadline within a stream", late(stream, ": x\n\n"), nil, "deadline exceeded"},
	{"cancelled within a stream", late(stream, ": x\n\n"),
		func(cancel func(), _ *clienthttp.Transport) { cancel() }, "canceled"},
	{"closed before the header", silent,
		func(_ func(), tr *clienthttp.Transport) { _ = tr.Close() },
		"transport is closed"},
	{"closed within a stream", late(stream, ": x\n\n"),
		func(_ func(), tr *clienthttp.Transport) { _ = tr.Close() }, "transport is closed"},
	{"closed while a stream waits to be taken up",
		events(event("1", `{"jsonrpc":"2.0","method":"notifications/x"}`)),
		func(_ func(), tr *clienthttp.Transport) { _ = tr.Close() }, ""},
	{
		"deadline while a stream is taken up",
		events("retry: 60000\n", event("1", `{"jsonrpc":"2.0","method":"notifications/x"}`)), nil, "",
	},
	{"400", answer(400, "text/plain", "no"), nil, "HTTP status 400"},
	{"redirect", answer(302, "", ""), nil, "redirects"},
	{
		"challenge", answer(401, media, `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}`), nil,
		"",
	},
	{
		"refused under another id",
		answer(400, media, `{"jsonrpc":"2.0","id":8,"error":{"code":1,"message":"m"}}`), nil, "has id 8",
	},
	{"another id", answer(200, media, strings.Replace(result, "7", "8", 1)), nil, "has id 8"},
	{"another id in a stream", events("data: " + strings.Replace(result, "7", "8", 1) + "\n\n"),
		nil,
		"has id 8"},
	{"too large", answer(200, media, strings.Repeat(" ", 2<<10)), nil, "too large"},
	{"too large in a stream", events("data: " + strings.Repeat(" ", 4<<10) + "\n\n"), nil,
		"too large"},
	{"garbage", answer(200, media, "<html>"), nil, "response"},
	{"garbage in a stream", events("data: <html>\n\n"), nil, "stream"},
	{"no message at all", answer(200, "text/html", "<html>"), nil, "content type"},
	{"stream without an answer", events(": x\n\n"), nil, "without a response"},
}

// Every error names its package once, in both eras.
func TestErrorsNameThePackageOnce(t *testing.T) {
	for _, modern := range []bool{true, false} {
		for _, f := range failures {
			name := f.name + " in a session"
			if modern {
				name = f.name
			}
			inBubble(t, name, func(t *testing.T) {
				s := &legacyServer{id: "s", call: f.call, resume: silent}
				tr, err := clienthttp.New("http://server.test/mcp", &clienthttp.Options{
					HTTPClient:       &http.Client{Transport: inProcess(t, s)},
					MaxResponseBytes: 1 << 10,
				})
				noError(t, err)
				peer := protocol.Peer(tr)
				if !modern {
					x, _, err := tr.OpenSession(t.Context(), initialize, &asked{})
					noError(t, err)
					defer x.Close()
					peer = x
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if f.end != nil {
					time.AfterFunc(time.Second, func() { f.end(cancel, tr) })
				}
				resp, err := peer.Handle(ctx, request(), nil)
				defer tr.Close()
				if f.name == "challenge" && err == nil && resp.Error != nil {
					return // without a challenge header it is a response
				}
				if err == nil || !strings.HasPrefix(err.Error(), "clienthttp: ") ||
					!strings.Contains(err.Error(), f.want) {
					t.Fatalf("got %v, want clienthttp: …%s…", err, f.want)
				}
				if twice := errtext.RepeatedPrefix(err, "clienthttp", "client"); twice != "" {
					t.Errorf("%s stands twice: %v", twice, err)
				}
			})
		}
	}
}

func TestErrorsOfCallersNameThePackageOnce(t *testing.T) {
	for name, opts := range map[string]*clienthttp.Options{
		"authorize": {Authorizer: noCredentials(clienthttp.ErrClosed)},
		"client":    {HTTPClient: &http.Client{Transport: failing{}}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := serve(t, silent, opts)
			_, err := tr.Handle(t.Context(), request(), nil)
			if !errors.Is(err, clienthttp.ErrClosed) ||
				errtext.RepeatedPrefix(err, "clienthttp") != "" {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, clienthttp.ErrClosed }

// TestRefusedCredentialsNameTheReason: errors quote the challenge without control characters.
func TestRefusedCredentialsNameTheReason(t *testing.T) {
	challenged := func(status int, challenge string, response *protocol.Error) string {
		return clienthttp.NewStatusError(status, http.Header{"Www-Authenticate": {challenge}},
			response).Error()
	}
	bare := &protocol.Error{Code: -32600, Message: "Unauthorized"}
	for _, test := range []struct{ got, want string }{
		{challenged(401, `Bearer error="invalid_token", error_description="audience"`, bare),
			`clienthttp: HTTP status 401 Unauthorized: challenge ` +
				`"Bearer error='invalid_token', error_description='audience'"`},
		{challenged(403, `Bearer scope="pay"`, &protocol.Error{Code: 23226, Message: "needs pay"}),
			`clienthttp: HTTP status 403 Forbidden: needs pay (code 23226): ` +
				`challenge "Bearer scope='pay'"`},
		{challenged(401, "a\x1b[31m\u202e", nil),
			`clienthttp: HTTP status 401 Unauthorized: challenge "a\x1b[31m\u202e"`},
		{challenged(401, strings.Repeat("x", 5000), nil),
			`clienthttp: HTTP status 401 Unauthorized: challenge "` + strings.Repeat("x", 256) + `"`},
		{challenged(404, "Bearer", nil), "clienthttp: HTTP status 404 Not Found"},
		{challenged(401, "", bare),
			"clienthttp: HTTP status 401 Unauthorized: Unauthorized (code -32600)"},
	} {
		wantEqual(t, "the result", test.got, test.want)
	}
}
