//lint:file-ignore SA1019 sampling, roots and logging are deprecated, but supported

package gosdk

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Elicit asks the person behind session. It takes the place of session.Elicit, and is
// the one call to change in a handler that pushes its questions.
//
//	answer, err := gosdk.Elicit(ctx, req.Session,
//		&mcp.ElicitParams{Message: "Delete?", RequestedSchema: yes})
//
// In a session of a legacy revision Elicit blocks until the person has answered. In a
// modern revision it does not block: while there is no answer it returns an error, ctx
// ends, and the client is asked whatever the handler returns after that. The retry with
// the answer runs the handler again from its start, and Elicit returns the answer. All
// code before the call therefore runs in every round; use [roundtrip.Memo],
// [roundtrip.IdempotencyKey] and [roundtrip.OnCommit] for what must run once.
//
// A refusal is an answer, as in the SDK: look at Action. With an error the result is
// empty and not nil. The content of an accepted form is valid under its schema and has
// the schema's defaults filled in.
//
// Without a key a question is identified by its content and its place, so that consent to
// one text or URL is no consent to another, and the same question twice in a run is two
// questions. One is asked in each round. If the handler asks something else when it runs
// again, the flow ends with an error that says so, and nothing is asked twice: keep what is
// fresh in a question with [roundtrip.Nonce] or [roundtrip.Memo]. Use [WithKey] to name a
// question, to ask several in one round, and to ask the same from several goroutines.
// Errors are those of [roundtrip.AskUnkeyed].
//
// A question that cannot be asked ends the call, whatever the handler does with the
// error. A handler that does not need the answer checks [roundtrip.CanAsk] first, or adds
// the option [roundtrip.IfPossible]: where the client cannot be asked Elicit then returns a
// [*roundtrip.PushError], and the call goes on. In a session it also goes on after any other
// failure to ask.
//
// Outside of the handlers of tools, prompts and resources of a server with [Adapter.Install]
// Elicit is session.Elicit, except that it refuses URLs which must not be opened.
func Elicit(ctx context.Context, session Elicitor, params *mcp.ElicitParams,
	opts ...roundtrip.QuestionOption) (*mcp.ElicitResult, error) {
	return askOrCall(ctx, session, params, session.Elicit, opts)
}

// CreateMessage asks the client's model. It is to session.CreateMessage what [Elicit] is
// to session.Elicit. An answer with more than one block of content is an error.
func CreateMessage(ctx context.Context, session MessageCreator, params *mcp.CreateMessageParams,
	opts ...roundtrip.QuestionOption) (*mcp.CreateMessageResult, error) {
	run := findRun(ctx, session)
	if run == nil {
		return session.CreateMessage(ctx, params)
	}
	all, result := &mcp.CreateMessageWithToolsResult{}, &mcp.CreateMessageResult{}
	if err := run.askAndDecode(ctx, params, all, opts); err != nil {
		return result, err
	}
	if len(all.Content) > 1 {
		return result, fmt.Errorf("the model answered with %d blocks of content; use "+
			"CreateMessageWithTools", len(all.Content))
	}
	result.Meta, result.Model, result.Role, result.StopReason = all.Meta, all.Model, all.Role,
		all.StopReason
	if len(all.Content) == 1 {
		result.Content = all.Content[0]
	}
	return result, nil
}

// CreateMessageWithTools asks the client's model. It is to
// session.CreateMessageWithTools what [Elicit] is to session.Elicit.
func CreateMessageWithTools(ctx context.Context, session ToolMessageCreator,
	params *mcp.CreateMessageWithToolsParams,
	opts ...roundtrip.QuestionOption) (*mcp.CreateMessageWithToolsResult, error) {
	return askOrCall(ctx, session, params, session.CreateMessageWithTools, opts)
}

// ListRoots asks which directories the client exposes. It is to session.ListRoots what
// [Elicit] is to session.Elicit.
func ListRoots(ctx context.Context, session RootsLister, params *mcp.ListRootsParams,
	opts ...roundtrip.QuestionOption) (*mcp.ListRootsResult, error) {
	return askOrCall(ctx, session, params, session.ListRoots, opts)
}

// askOrCall asks in the run of the handler that ctx belongs to, or, outside of one, with
// push, the method of the session.
func askOrCall[P mcp.InputRequest, R any](ctx context.Context, session any, params P,
	live func(context.Context, P) (*R, error), opts []roundtrip.QuestionOption) (*R, error) {
	run := findRun(ctx, session)
	if run == nil {
		if refusal := refuseURL(nil, params); refusal != nil {
			return new(R), refusal
		}
		return live(ctx, params)
	}
	result := new(R)
	return result, run.askAndDecode(ctx, params, result, opts)
}

// refuseURL checks the URL of a question that does not pass the funnel, nil if it may be
// opened. The refusal has the elicitation's id, because such questions have no key.
func refuseURL(hook urlrule.Hook, params any) *urlrule.Refusal {
	visit, ok := params.(*mcp.ElicitParams)
	if !ok || visit == nil || visit.Mode == "form" || visit.Mode == "" && visit.URL == "" &&
		visit.ElicitationID == "" {
		return nil
	}
	return hook.RefuseAny([]*protocol.ElicitURL{{URL: visit.URL,
		ElicitationID: visit.ElicitationID}})
}

// WithKey sets the key of the question that is asked with the returned context. The key
// must be the same in every round, and differ from those of all other questions in one
// run of the handler.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, questionKey{}, key)
}

type questionKey struct{}

// askAndDecode asks one question and decodes the answer into result.
func (run *handlerRun) askAndDecode(ctx context.Context, params mcp.InputRequest, result any,
	opts []roundtrip.QuestionOption) error {
	asked, err := decodeQuestion(params)
	if err != nil {
		return fmt.Errorf("gosdk: %w", err)
	}
	raw, err := askUnderKey(ctx, asked, opts)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// askUnderKey asks under the key of [WithKey], or without one.
func askUnderKey(ctx context.Context, asked protocol.InputRequest,
	opts []roundtrip.QuestionOption) (json.RawMessage, error) {
	if key, ok := ctx.Value(questionKey{}).(string); ok {
		return roundtrip.AskRequest(ctx, key, asked, opts...)
	}
	return roundtrip.AskUnkeyed(ctx, asked, opts...)
}

// answerPush answers a question that an unmodified handler pushes over a shadow session.
func (run *handlerRun) answerPush(ctx context.Context, method string,
	params mcp.Params) (mcp.Result, error) {
	if roundtrip.RoundOf(ctx).Number == 0 {
		// The handler asked with a context that is not derived from its own.
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
	return result, run.askAndDecode(ctx, asked, result, nil)
}
