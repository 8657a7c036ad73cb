package gatewaytest

import (
	"bufio"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// AcceptOneType holds that a client which takes one media type alone is served in it. Where that
// is JSON its questions go to its GET stream, and without one the upstream learns why nobody was
// asked.
func AcceptOneType(t *testing.T, build Gateway) {
	url := build(t, newRouter(t, nil), NewUpstream(t), SharedHTTP)
	var answered sync.WaitGroup
	for _, media := range []string{"application/json", "text/event-stream"} {
		client := Connect(t, url, forms, `"result":`+because, http.Header{"Accept": {media}})
		stream := client.StartCall(t, ToolPlain, plain)
		if got := stream.response.Header.Get("Content-Type"); got != media {
			t.Errorf("%s: got %s", media, got)
		}
		stream.Close()
		if media == "application/json" {
			if got := client.Call(t, ToolAsk, plain); !strings.Contains(got, "Accept: ") {
				t.Errorf("without a GET stream: the upstream reads %s", got)
			}
			listener := client.As(http.Header{"Accept": {"text/event-stream"}})
			response := listener.send(t, http.MethodGet, "")
			defer response.Body.Close()
			answered.Go(func() {
				get := &Stream{0, response, bufio.NewReader(response.Body)}
				listener.Answer(t, get)
			})
		}
		if got := client.Call(t, ToolAsk, plain); got != because {
			t.Errorf("%s: the upstream reads %s, want %s", media, got, because)
		}
		answered.Wait() // for the response to the answer, which may come after the result
	}
}
