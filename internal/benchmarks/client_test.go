package benchmarks_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/protocol"
)

// clientOps returns our client's work for a plain call and for a flow of two legs. An
// http.RoundTripper answers from memory, so nothing else is measured.
func clientOps() []op {
	deploy := map[string]any{"environment": wire.Environment, "version": wire.Release}
	return []op{
		clientOp("echo", wire.Echo, map[string]any{"message": wire.Hello, "upper": false},
			wire.Hello),
		clientOp("two legs", wire.Deploy, deploy, wire.Deployment().Deployed()),
	}
}

func clientOp(row, tool string, args map[string]any, want string) op {
	return op{"client", row, ours,
		func() (func() error, func(), error) {
			c, err := newClient()
			if err != nil {
				return nil, nil, err
			}
			do := func() error {
				result, err := c.CallTool(context.Background(), tool, args)
				if err != nil {
					return err
				}
				if got, ok := result.Content[0].(*protocol.TextContent); !ok || got.Text != want {
					return fmt.Errorf("got %+v, want %q", result.Content[0], want)
				}
				return nil
			}
			return do, func() { _ = c.Close() }, nil
		}}
}

func newClient() (*client.Client, error) {
	transport, err := clienthttp.New("http://127.0.0.1/mcp",
		&clienthttp.Options{HTTPClient: &http.Client{Transport: newStub()}})
	if err != nil {
		return nil, err
	}
	c, err := client.New(transport, &client.Options{
		Info: protocol.Implementation{Name: "bench", Version: "1.0.0"},
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(map[string]any{"approve": true})
		},
	})
	if err == nil {
		_, err = c.Negotiate(context.Background())
	}
	return c, err
}

// A stub answers from memory: server/discover, Echo, and both legs of Deploy.
type stub struct {
	request bytes.Buffer
	answers []struct{ mark, rest string } // the first whose mark is in the request answers it
}

func newStub() *stub {
	const (
		info = `"_meta":{"io.modelcontextprotocol/serverInfo":` +
			`{"name":"bench","version":"1.0.0"}}}}`
		state = `env=production`
	)
	text := func(s string) string {
		return `,"result":{"resultType":"complete","content":[{"type":"text","text":"` + s +
			`"}],` + info
	}
	return &stub{answers: []struct{ mark, rest string }{
		{`"server/discover"`, `,"result":{"resultType":"complete","supportedVersions":["` +
			wire.Version + `"],"capabilities":{"tools":{}},"ttlMs":3600000,` +
			`"cacheScope":"public",` + info},
		{`"requestState":"` + state, text(wire.Deployment().Deployed())},
		{`"` + wire.Deploy + `"`, `,"result":{"resultType":"input_required","inputRequests":{"` +
			wire.ConfirmKey + `":{"method":"elicitation/create","params":{"mode":"form",` +
			`"message":"` + wire.Deployment().Question() + `","requestedSchema":` +
			wire.ConfirmSchema + `}}},"requestState":"` + state + `",` + info},
		{`"` + wire.Echo + `"`, text(wire.Hello)},
	}}
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.request.Reset()
	if _, err := s.request.ReadFrom(r.Body); err != nil {
		return nil, err
	}
	r.Body.Close()
	_, id, _ := bytes.Cut(s.request.Bytes(), []byte(`"id":`))
	i := slices.IndexFunc(s.answers, func(a struct{ mark, rest string }) bool {
		return bytes.Contains(s.request.Bytes(), []byte(a.mark))
	})
	end := bytes.IndexAny(id, ",}")
	if i < 0 || end < 0 {
		return nil, fmt.Errorf("an unexpected request: %s", s.request.Bytes())
	}
	const start = `{"jsonrpc":"2.0","id":`
	body := make([]byte, 0, len(start)+end+len(s.answers[i].rest))
	body = append(append(append(body, start...), id[:end]...), s.answers[i].rest...)
	return &http.Response{
		Status: "200 OK", StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}
