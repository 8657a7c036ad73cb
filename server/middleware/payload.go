package middleware

import (
	"cmp"
	"context"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	// defaultMaxArguments allows for a long message of a model among the answers.
	defaultMaxArguments = 1 << 20
	maxAnswers          = 64 // many more than a user is asked at once
	// defaultMaxResult is more than a model can read, and allows for an image or two.
	defaultMaxResult = 8 << 20
)

// Payload returns a middleware that bounds sizes in requests and results. Its limits are tighter
// than transports', its errors name the part. There may be 64 inputResponses. opts may be nil.
//
// A request over a limit is refused with invalid params (-32602) before the handler; its answers
// and state are not used up. A large result becomes an internal error (-32603).
//
// Place it above [Limit], so that refused requests take no slot.
func Payload(opts *Options) server.Middleware {
	o := opts.orDefault()
	o.ArgumentBytes = cmp.Or(o.ArgumentBytes, defaultMaxArguments)
	o.ResultBytes = cmp.Or(o.ResultBytes, defaultMaxResult)
	return func(next server.Handler) server.Handler {
		return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			if request.Refusal() == nil {
				if e := o.checkRequest(request.Params); e != nil {
					return nil, e
				}
			}
			result, err := next(ctx, request)
			if err != nil {
				return result, err
			}
			if n := resultSize(result); exceedsLimit(n, o.ResultBytes) {
				return nil, protocol.Errorf(protocol.CodeInternalError,
					"the result of %d bytes is over the server's limit of %d; ask for less at a "+
						"time", n, o.ResultBytes)
			}
			return result, nil
		}
	}
}

func exceedsLimit(n, limit int) bool { return limit >= 0 && n > limit }

func (o *Options) checkRequest(params protocol.Params) *protocol.Error {
	arguments, name := 0, "arguments"
	switch p := params.(type) {
	case *protocol.CallToolParams:
		arguments = len(p.Arguments)
	case *protocol.GetPromptParams:
		arguments = len(p.Arguments)
	case *protocol.ReadResourceParams:
		arguments, name = len(p.URI), "uri"
	case *protocol.CompleteParams:
		arguments, name = len(p.Prompt)+len(p.Template)+len(p.Argument)+len(p.Value),
			"argument and context"
		for name, value := range p.Context {
			arguments += len(name) + len(value)
		}
	}
	if exceedsLimit(arguments, o.ArgumentBytes) {
		return protocol.Errorf(protocol.CodeInvalidParams,
			"invalid params: %s: %d bytes are over the server's limit of %d; send less", name,
			arguments, o.ArgumentBytes)
	}
	retry := protocol.RetryOf(params)
	if retry == nil {
		return nil
	}
	if n := len(retry.InputResponses); n > maxAnswers {
		return protocol.Errorf(protocol.CodeInvalidParams,
			"invalid params: inputResponses: %d answers are over the server's limit of %d; send "+
				"only those that were asked for", n, maxAnswers)
	}
	answers := 0
	for _, r := range retry.InputResponses {
		answers += len(r.Key) + len(r.Result)
	}
	if exceedsLimit(answers, o.ArgumentBytes) {
		return protocol.Errorf(protocol.CodeInvalidParams,
			"invalid params: inputResponses: %d bytes are over the server's limit of %d; send "+
				"shorter ones", answers, o.ArgumentBytes)
	}
	return nil
}
