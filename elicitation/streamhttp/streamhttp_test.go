package streamhttp_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/streamhttp"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// An upstream is a transport that responds to every request with one body.
type upstream struct {
	kind string
	body io.Reader
}

// RoundTrip implements [http.RoundTripper].
func (u upstream) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(u.body),
		Header: http.Header{"Content-Type": {u.kind}, "Content-Length": {"1"}}}, nil
}

func beginCall(t *testing.T) context.Context {
	t.Helper()
	router, err := elicitation.New(nil)
	noError(t, err)
	session, err := router.Attach(elicitation.SessionInfo{})
	noError(t, err)
	call, err := router.Begin(t.Context(), elicitation.Origin{Session: session, CallID: "c1"},
		elicitation.Via{}, "up")
	noError(t, err)
	t.Cleanup(call.End)
	return streamhttp.WithCall(t.Context(), call)
}

func open(t *testing.T, ctx context.Context, u upstream) io.ReadCloser {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://up.example/mcp", nil)
	noError(t, err)
	response, err := streamhttp.TagStreams(u).RoundTrip(r)
	noError(t, err)
	return response.Body
}

func read(t *testing.T, ctx context.Context, u upstream) string {
	t.Helper()
	body := open(t, ctx, u)
	defer body.Close()
	data, err := io.ReadAll(body)
	noError(t, err)
	return string(data)
}

var noError = testkit.NoError

const events = "text/event-stream; charset=utf-8"

// Questions get the id however their JSON is spelled; everything else passes unchanged.
func TestQuestionsOnTheStreamOfACallNameIt(t *testing.T) {
	large := "data: " + strings.Repeat("x", 300<<10) + "\n\n"
	question := `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m"}}`
	const tagged = `{"jsonrpc":"2.0","id":1,"method":"elicitation/create",` +
		`"params":{"message":"m","_meta":{"rondo/call":"c1"}}}`
	for name, test := range map[string]struct{ came, want string }{
		"question": {"data: " + question + "\n\n", "data: " + tagged + "\n\n"},
		"fields and line ends": {"event: message\r\nid: 7\r\ndata:" + question + "\r\n\r\n",
			"data: " + tagged + "\nevent: message\r\nid: 7\r\n\r\n"},
		"method with an escape": {
			`data: {"method":"elicitation\/create","params":{"_meta":{"a":1}}}` + "\n\n",
			`data: {"method":"elicitation\/create","params":{"_meta":{"a":1,"rondo/call":"c1"}}}` +
				"\n\n"},
		"no params": {`data: {"method":"elicitation/create"}` + "\n\n",
			`data: {"method":"elicitation/create","params":{"_meta":{"rondo/call":"c1"}}}` + "\n\n"},
		"the upstream names another": {
			`data: {"method":"elicitation/create","params":{"_meta":{"rondo/call":"c2"}}}` + "\n\n",
			`data: {"method":"elicitation/create","params":{"_meta":{"rondo/call":"c1"}}}` + "\n\n"},
		"two lines of data": {"data: {\"method\":\ndata: \"elicitation/create\"}\n\n",
			`data: {"method":"elicitation/create","params":{"_meta":{"rondo/call":"c1"}}}` + "\n\n"},
		"the end of the stream ends it": {"data: " + question, "data: " + tagged + "\n"},
		"after others": {": ping\n\n" + large + "data: " + question + "\n\n",
			": ping\n\n" + large + "data: " + tagged + "\n\n"},
		"params are no object": {`data: {"method":"elicitation/create","params":[]}` + "\n\n", ""},
		"another method":       {`data: {"method":"ping"}` + "\n\n", ""},
		"a response":           {`data: {"id":1,"result":{"method":"elicitation/create"}}` + "\n\n", ""},
		"no JSON":              {"data: {\"method\": elicitation/create\n\n", ""},
		"not UTF-8":            {"data: {\"method\":\"\xff\"}\n\n", ""},
	} {
		if test.want == "" {
			test.want = test.came
		}
		t.Run(name, func(t *testing.T) {
			ctx := beginCall(t)
			for _, body := range []io.Reader{strings.NewReader(test.came),
				iotest.OneByteReader(strings.NewReader(test.came))} {
				if got := read(t, ctx, upstream{events, body}); got != test.want {
					t.Errorf("got\n%q, want\n%q", got, test.want)
				}
			}
			for kind, ctx := range map[string]context.Context{
				"application/json": ctx, events: t.Context(),
			} {
				if got := read(t, ctx, upstream{kind, strings.NewReader(test.came)}); got !=
					test.came {
					t.Errorf("%s: got\n%q, want\n%q", kind, got, test.came)
				}
			}
		})
	}
}

// A stream is not read ahead of what was written.
func TestEventsPassWhenTheyAreComplete(t *testing.T) {
	r, w := io.Pipe()
	body := open(t, beginCall(t), upstream{events, r})
	defer body.Close()
	buffer := make([]byte, 100)
	for _, event := range []string{": ping\n\n", "data: 1\n\n"} {
		go func() { _, _ = io.WriteString(w, event) }()
		if _, err := io.ReadFull(body, buffer[:len(event)]); err != nil ||
			string(buffer[:len(event)]) != event {
			t.Errorf("got %q, %v, want %q", buffer[:len(event)], err, event)
		}
	}
}

// FuzzStream checks that any stream passes unchanged, except for the tags of questions.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"method\":\"elicitation/create\",\"params\":{}}\n\n"))
	f.Add([]byte("id: 1\ndata: {}\n\n: ping\n\n"))
	f.Fuzz(func(t *testing.T, came []byte) {
		got := read(t, beginCall(t), upstream{events, bytes.NewReader(came)})
		if !strings.Contains(got, elicitation.MetaCall) && got != string(came) {
			t.Errorf("%q became %q", came, got)
		}
		if strings.Contains(got, `"rondo/call":"c1"`) &&
			!bytes.Contains(came, []byte(protocol.MethodElicit)) &&
			!bytes.Contains(came, []byte(`\`)) {
			t.Errorf("%q became %q", came, got)
		}
	})
}
