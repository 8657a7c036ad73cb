package accepthttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
)

// TestForms holds what Accept headers admit.
func TestForms(t *testing.T) {
	for header, want := range map[string]string{
		"*/*": "true true", "application/json": "true false", "text/*": "false true",
		"application/*;q=0.5, text/event-stream;q=0": "true false", "text/html": "false false",
		`application/json;p="a,b\",c"`: "true false",
		"text/event-stream;q=0, */*":   "true false", "application/json, */*;q=0": "true false",
		"*/*;q=0": "false false", "application/json;q=2": "false false", "": "false false",
	} {
		json, events := accepthttp.Forms([]string{header})
		if got := fmt.Sprint(json, " ", events); got != want {
			t.Errorf("%q: got %s, want %s", header, got, want)
		}
	}
}

// TestWrap holds the form of responses that handlers write in theirs.
func TestWrap(t *testing.T) {
	const response = `{"jsonrpc":"2.0","id":1,"result":{}}`
	const noise = `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
	events := func(messages ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, m := range messages {
				_, _ = io.WriteString(w, "event: message\ndata: "+m+"\n\n")
				_ = http.NewResponseController(w).Flush()
			}
		}
	}
	single := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(response)))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, response)
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}
	}
	const json, stream = "application/json", "text/event-stream"
	for name, tt := range map[string]struct {
		next         http.HandlerFunc
		accept, body string
		prefers      bool
		want         string // status, type and body
	}{
		"a stream as JSON": {events(noise, response), json, "{}", false,
			"200 " + json + " " + response},
		"a batch as JSON": {events(response, noise), json, " [{}]", false,
			"200 " + json + " [" + response + "]"},
		"a batch of two": {events(response, response), json, "[{}]", false,
			"200 " + json + " [" + response + "," + response + "]"},
		"a stream without a response": {events(noise), json, "{}", false,
			"500 text/plain; charset=utf-8 the response was lost\n"},
		"JSON as a stream": {single(200), stream, "{}", false,
			"200 " + stream + " event: message\ndata: " + response + "\n\n"},
		"another status keeps its body": {single(400), stream, "{}", false,
			"400 " + json + " " + response},
		"both, a response": {events(response), json + ", " + stream, "{}", true,
			"200 " + json + " " + response},
		"both, more than that": {events(noise, response), "*/*", "{}", true,
			"200 " + stream + " event: message\ndata: " + noise + "\n\nevent: message\ndata: " +
				response + "\n\n"},
		"both, not preferred": {events(response), "*/*", "{}", false,
			"200 " + stream + " event: message\ndata: " + response + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			ts := httptest.NewServer(new(accepthttp.Endpoint).Wrap(tt.next, tt.prefers))
			defer ts.Close()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ts.URL,
				strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", tt.accept)
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			text, err := io.ReadAll(got.Body)
			if said := fmt.Sprint(got.StatusCode, " ", got.Header.Get("Content-Type"), " ",
				string(text)); said != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", said, err, tt.want)
			}
		})
	}
}
