//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and supported for as long as they are

package gosdk

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Elicit puts a question to the person behind session, in place of
// session.Elicit: the one call to change in a handler that pushes its
// questions.
//
//	answer, err := gosdk.Elicit(ctx, req.Session, &mcp.ElicitParams{Message: "Delete?", RequestedSchema: yes})
//
// On a connection of a legacy revision it waits for the person. In a modern
// revision it does not wait: where the answer is not there yet it returns an
// error, ctx ends, and the client is asked whatever the handler goes on to
// return; with the answer the handler runs again from its start, and Elicit
// returns it. All code before the call therefore runs once more in every round;
// [roundtrip.Memo], [roundtrip.IdempotencyKey] and [roundtrip.OnCommit] are for
// what must not.
//
// A refusal is an answer, as in the SDK: look at Action. Beside an error the
// result is empty and not nil. The content of an accepted form fits its schema
// and has its defaults filled in.
//
// Questions are told apart by what they say, so that consent to one text is no
// consent to another, and asked one a round. A question that reads differently
// in every round is asked twice; then the flow ends with an internal error.
// Asking the same again after a refusal ends it with the refusal. Use [WithKey]
// to name a question, and for several in one round. Errors are those of
// [roundtrip.AskRequest].
//
// A question that cannot be asked ends the call, whatever the handler makes of the
// error. Handlers that can do without an answer look first, with
// [roundtrip.CanAsk], or call [TryElicit].
//
// Outside of a handler of tools, prompts and resources of a server with
// [Install] it is session.Elicit, and nothing else, except that a URL that nobody
// may be sent to is refused there, too.
func Elicit(ctx context.Context, session *mcp.ServerSession, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return askOrCall(ctx, session, params, session.Elicit)
}

// TryElicit is [Elicit] for handlers that can do without an answer: where the
// client cannot be asked it returns a [*roundtrip.PushError], and the call goes
// on. In a session so does any other failure to ask.
func TryElicit(ctx context.Context, session *mcp.ServerSession, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return askOrCall(ctx, session, params, session.Elicit, roundtrip.IfPossible())
}

// CreateMessage asks the client's model, in place of session.CreateMessage, as
// [Elicit] does. More than one block of content in the answer is an error.
func CreateMessage(ctx context.Context, session *mcp.ServerSession, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	return createMessage(ctx, session, params)
}

// TryCreateMessage is [CreateMessage] as [TryElicit] is Elicit.
func TryCreateMessage(ctx context.Context, session *mcp.ServerSession, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	return createMessage(ctx, session, params, roundtrip.IfPossible())
}

func createMessage(ctx context.Context, session *mcp.ServerSession, params *mcp.CreateMessageParams, opts ...roundtrip.AskOption) (*mcp.CreateMessageResult, error) {
	run := findRun(ctx, session)
	if run == nil {
		return session.CreateMessage(ctx, params)
	}
	all, result := &mcp.CreateMessageWithToolsResult{}, &mcp.CreateMessageResult{}
	if err := run.askAndDecode(ctx, params, all, opts...); err != nil {
		return result, err
	}
	if len(all.Content) > 1 {
		return result, fmt.Errorf("the model answered with %d blocks of content; use CreateMessageWithTools", len(all.Content))
	}
	result.Meta, result.Model, result.Role, result.StopReason = all.Meta, all.Model, all.Role, all.StopReason
	if len(all.Content) == 1 {
		result.Content = all.Content[0]
	}
	return result, nil
}

// CreateMessageWithTools asks the client's model, in place of
// session.CreateMessageWithTools, as [Elicit] does.
func CreateMessageWithTools(ctx context.Context, session *mcp.ServerSession, params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	return askOrCall(ctx, session, params, session.CreateMessageWithTools)
}

// TryCreateMessageWithTools is [CreateMessageWithTools] as [TryElicit] is Elicit.
func TryCreateMessageWithTools(ctx context.Context, session *mcp.ServerSession, params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	return askOrCall(ctx, session, params, session.CreateMessageWithTools, roundtrip.IfPossible())
}

// ListRoots asks which directories the client exposes, in place of
// session.ListRoots, as [Elicit] does.
func ListRoots(ctx context.Context, session *mcp.ServerSession, params *mcp.ListRootsParams) (*mcp.ListRootsResult, error) {
	return askOrCall(ctx, session, params, session.ListRoots)
}

// TryListRoots is [ListRoots] as [TryElicit] is Elicit.
func TryListRoots(ctx context.Context, session *mcp.ServerSession, params *mcp.ListRootsParams) (*mcp.ListRootsResult, error) {
	return askOrCall(ctx, session, params, session.ListRoots, roundtrip.IfPossible())
}

// askOrCall puts a question through the round that ctx is of, or, where there is none,
// live.
func askOrCall[P mcp.InputRequest, R any](ctx context.Context, session *mcp.ServerSession, params P, live func(context.Context, P) (*R, error), opts ...roundtrip.AskOption) (*R, error) {
	run := findRun(ctx, session)
	if run == nil {
		if refusal := refuseURL(nil, params); refusal != nil {
			return new(R), refusal
		}
		return live(ctx, params)
	}
	result := new(R)
	return result, run.askAndDecode(ctx, params, result, opts...)
}

// refuseURL refuses a URL that nobody may be sent to, where no funnel does. The
// refusal names the elicitation, for such questions have no key.
func refuseURL(hook urlrule.Hook, params any) *urlrule.Refusal {
	visit, ok := params.(*mcp.ElicitParams)
	if !ok || visit == nil || visit.Mode == "form" || visit.Mode == "" && visit.URL == "" && visit.ElicitationID == "" {
		return nil
	}
	return hook.RefuseAny([]*protocol.ElicitURL{{URL: visit.URL, ElicitationID: visit.ElicitationID}})
}

// WithKey names the question that is asked with the returned context, which
// must be the same in every round. No two questions in one run of a handler may
// have the same.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, questionKey{}, key)
}

type questionKey struct{}

// findRun returns the run of the handler that asks, nil outside of one.
func findRun(ctx context.Context, session *mcp.ServerSession) *handlerRun {
	if run := runFrom(ctx); run != nil && (session == run.visible || session == run.call.session) {
		return run
	}
	return nil
}

// askAndDecode asks one question and decodes the answer into result.
func (run *handlerRun) askAndDecode(ctx context.Context, params mcp.InputRequest, result any, opts ...roundtrip.AskOption) error {
	asked, err := decodeQuestion(params)
	if err != nil {
		return fmt.Errorf("gosdk: %w", err)
	}
	raw, err := run.askUnderKey(ctx, asked, opts)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// answerPush answers what an unmodified handler pushes over a shadow.
func (run *handlerRun) answerPush(ctx context.Context, method string, params mcp.Params) (mcp.Result, error) {
	if roundtrip.Number(ctx) == 0 {
		// The handler asks with a context of its own.
		ctx = run.ctx
	}
	asked, ok := params.(mcp.InputRequest)
	if !ok {
		return nil, fmt.Errorf("gosdk: %s with a %T", method, params)
	}
	if err := run.checkDeclared(ctx, asked); err != nil {
		return nil, err
	}
	var result mcp.Result
	switch method {
	case protocol.MethodElicit:
		result = &mcp.ElicitResult{}
	case protocol.MethodCreateMessage:
		result = &mcp.CreateMessageWithToolsResult{}
	default:
		result = &mcp.ListRootsResult{}
	}
	return result, run.askAndDecode(ctx, asked, result)
}
