package wiretest_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

func TestRecorder(t *testing.T) {
	next := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Allow", "POST")
			http.Error(w, "no stream here", http.StatusMethodNotAllowed)
		case strings.Contains(string(body), "stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": hello\nid: 1\ndata: \n\nid: 2\ndata: {\"n\":1,\ndata: \"m\":2}\n\n")
			w.(http.Flusher).Flush()
			<-next
			io.WriteString(w, "data: {\"n\":2}\r\n\r\ndata: {\"cut\":")
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Set-Cookie", "secret=1")
			w.Write(body)
		}
	}))
	defer server.Close()

	recorder := &wiretest.Recorder{Base: server.Client().Transport}
	client := &http.Client{Transport: recorder}
	post := func(body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/mcp",
			strings.NewReader(body))
		testkit.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("MCP-Protocol-Version", "2026-07-28")
		req.Header.Set("Authorization", "Bearer secret")
		resp, err := client.Do(req)
		testkit.NoError(t, err)
		return resp
	}

	resp := post(`{"id":1}`)
	if body, _ := io.ReadAll(resp.Body); string(body) != `{"id":1}` {
		t.Errorf("the server got %q: recording changed the request", body)
	}
	resp.Body.Close()

	resp = post(`{"id":"stream"}`)
	reader := bufio.NewReader(resp.Body)
	for line := ""; !strings.HasPrefix(line, `data: "m"`); {
		var err error
		if line, err = reader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	// An event is recorded once its end has been read.
	if got := len(recorder.Messages()); got != 3 && got != 4 {
		t.Errorf("%d messages while the stream is open, want 3 or 4", got)
	}
	close(next)
	io.Copy(io.Discard, reader)
	resp.Body.Close()

	resp, err := client.Get(server.URL + "/mcp?x=1")
	testkit.NoError(t, err)
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()

	wiretest.Golden(t, "testdata/recorder.txtar", recorder.Messages())
}

func TestRecorderKeepsARequestThatFails(t *testing.T) {
	recorder := &wiretest.Recorder{Base: failing{}}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com/mcp",
		strings.NewReader(`{}`))
	if _, err := recorder.RoundTrip(req); err == nil {
		t.Fatal("the base's error was swallowed")
	}
	got := recorder.Messages()
	if len(got) != 1 || got[0].HTTP != "POST /mcp" || string(got[0].Body) != `{}` {
		t.Errorf("recorded %+v, want the request alone", got)
	}
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
