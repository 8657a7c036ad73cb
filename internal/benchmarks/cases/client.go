package cases

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// TwoLegsRow is a call that is asked one question, by a client.
const TwoLegsRow = "two legs"

// Client is what clients do for a plain call and for a flow of two legs. What
// answers is a stub of an http.RoundTripper, so that nothing else is measured.
func Client() (ops []measure.Op) {
	for _, row := range []struct {
		name, tool, want string
		args             map[string]any
	}{
		{EchoRow, wire.Echo, wire.Hello, map[string]any{"message": wire.Hello, "upper": false}},
		{TwoLegsRow, wire.Deploy, wire.Deployed(wire.Environment, wire.Release),
			map[string]any{"environment": wire.Environment, "version": wire.Release}},
	} {
		for _, c := range peers.Clients() {
			ops = append(ops, measure.Op{Group: ClientGroup, Row: row.name, Peer: c.Name,
				Start: func() (func() error, func(), error) {
					ctx := context.Background()
					caller, err := c.Dial(ctx, "http://127.0.0.1/mcp",
						&http.Client{Transport: newStub()})
					if err != nil {
						return nil, nil, err
					}
					do := func() error {
						got, err := caller.Call(ctx, row.tool, row.args)
						if err == nil && got != row.want {
							err = fmt.Errorf("got %q, want %q", got, row.want)
						}
						return err
					}
					return do, func() { _ = caller.Close() }, nil
				}})
		}
	}
	return ops
}

// A stub answers from memory: server/discover, Echo, and both legs of Deploy.
type stub struct {
	request bytes.Buffer
	answers []struct{ mark, rest string } // the first whose mark is in the request
}

func newStub() *stub {
	const (
		info  = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1.0.0"}}}}`
		state = `env=production`
	)
	text := func(s string) string {
		return `,"result":{"resultType":"complete","content":[{"type":"text","text":"` + s + `"}],` + info
	}
	return &stub{answers: []struct{ mark, rest string }{
		{`"server/discover"`, `,"result":{"resultType":"complete","supportedVersions":["` + wire.Version + `"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public",` + info},
		{`"requestState":"` + state, text(wire.Deployed(wire.Environment, wire.Release))},
		{`"` + wire.Deploy + `"`, `,"result":{"resultType":"input_required","inputRequests":{"` + wire.ConfirmKey +
			`":{"method":"elicitation/create","params":{"mode":"form","message":"` + wire.Question(wire.Environment, wire.Release) +
			`","requestedSchema":` + wire.ConfirmSchema +
			`}}},"requestState":"` + state + `",` + info},
		{`"` + wire.Echo + `"`, text(wire.Hello)},
	}}
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.request.Reset()
	if _, err := s.request.ReadFrom(r.Body); err != nil {
		return nil, err
	}
	r.Body.Close()
	_, id, found := bytes.Cut(s.request.Bytes(), []byte(`"id":`))
	end := bytes.IndexAny(id, ",}")
	if !found || end < 0 {
		return nil, fmt.Errorf("a request without id: %s", s.request.Bytes())
	}
	for _, a := range s.answers {
		if !bytes.Contains(s.request.Bytes(), []byte(a.mark)) {
			continue
		}
		const start = `{"jsonrpc":"2.0","id":`
		body := make([]byte, 0, len(start)+end+len(a.rest))
		body = append(append(append(body, start...), id[:end]...), a.rest...)
		return &http.Response{
			Status: "200 OK", StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": {"application/json"}},
			ContentLength: int64(len(body)),
			Body:          io.NopCloser(bytes.NewReader(body)), Request: r,
		}, nil
	}
	return nil, fmt.Errorf("an unexpected request: %s", s.request.Bytes())
}
