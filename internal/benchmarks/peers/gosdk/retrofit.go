package gosdk

import (
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// Retrofit returns a server whose handlers push their questions, behind the
// funnel of package roundtrip.
func Retrofit() http.Handler {
	srv := newServer(elicit)
	a, err := gosdk.New(nil)
	if err != nil {
		panic(err) // internal error: this is the version that it was written for
	}
	h, err := a.Handler(func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{JSONResponse: true})
	if err != nil {
		panic(err) // internal error: these are options of that version
	}
	return h
}

func elicit(ctx context.Context, r request, in wire.DeployArgs) (result, any, error) {
	answer, err := gosdk.Elicit(gosdk.WithKey(ctx, wire.ConfirmKey), r.Session,
		ask(wire.Question(in.Environment, in.Version)))
	if err != nil {
		return nil, nil, err
	}
	if !approved(answer) {
		return nil, nil, errors.New("not deployed")
	}
	return text(wire.Deployed(in.Environment, in.Version)), nil, nil
}
