package clienthttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client/clienthttp"
)

// A roundTrip needs no network: only the transport and net/http's client are measured.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return f(r), nil
}

func benchmark(b *testing.B, media, body string) {
	header := http.Header{"Content-Type": {media}}
	tr, err := clienthttp.New("http://127.0.0.1/mcp", &clienthttp.Options{HTTPClient: &http.Client{
		Transport: roundTrip(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: 200, Header: header, ContentLength: int64(len(body)),
				Body: io.NopCloser(strings.NewReader(body)), Request: r}
		}),
	}})
	noError(b, err)
	req := request()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tr.Handle(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
	noError(b, tr.Close())
}

func BenchmarkHandleJSON(b *testing.B)   { benchmark(b, media, result) }
func BenchmarkHandleStream(b *testing.B) { benchmark(b, stream, "data: "+result+"\n\n") }
