//lint:file-ignore SA1019 sampling, roots and logging are deprecated, but supported

package gosdk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Where a client has not declared that it can be asked, an unmodified handler gets the
// error that the SDK returns without the adapter, and the observer gets a
// event.PushFailed.

// checkDeclared returns that error for a question that an unmodified handler pushes, nil
// if the question is to be asked. The SDK itself checks forms and visits only.
func (run *handlerRun) checkDeclared(ctx context.Context, params mcp.InputRequest) error {
	a := run.call.adapter
	asked, err := decodeQuestion(params)
	if err != nil || !a.opts.UnmodifiedHandlers || a.opts.MustAsk ||
		roundtrip.CanAsk(ctx, asked.Kind()) {
		return nil // asking returns the error
	}
	err = fmt.Errorf("client does not support %s", asked.Kind().Method())
	a.funnel.NoteFailedPush(ctx, run.call.Call, asked.Kind(), err, true)
	return err
}

// reportFailedPush reports to the funnel that a question failed which an unmodified
// handler pushed to a legacy client. The handler may ignore the error; the funnel does
// not.
func (a *Adapter) reportFailedPush(ctx context.Context, params mcp.Params, err error) {
	run := runFrom(ctx)
	request, ok := params.(mcp.InputRequest)
	if !ok || run == nil || !a.opts.UnmodifiedHandlers && run.call.unreachableText() == "" {
		return
	}
	asked, unreadable := decodeQuestion(request)
	if unreadable != nil {
		return
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code != 0 {
		err = &protocol.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	a.funnel.NoteFailedPush(ctx, run.call.Call, asked.Kind(), err,
		!roundtrip.CanAsk(ctx, asked.Kind()))
}

// sdkRefusals returns the texts of the SDK's errors for questions that the client has not
// declared. The SDK returns them to the handler before any middleware.
func sdkRefusals() []string {
	return []string{"client does not support elicitation", `client does not support "form" elicitation`, `client does not support "url" elicitation`}
}

// errSessionless is reported once: what handlers do then is not noticed.
var errSessionless = errors.New("clients of older revisions cannot be asked without sessions, and " +
	"handlers may act unasked; set MustAsk where they must not")

// reportUnasked reports a handler that failed because the SDK refused to ask. A handler
// that ignores the refusal is not noticed, see [Options].MustAsk; where there are no sessions the
// first call is reported in its place.
func (c *call) reportUnasked(ctx context.Context, result mcp.Result, err error) {
	if !c.adapter.opts.UnmodifiedHandlers || c.Capabilities.Elicitation != nil &&
		c.Capabilities.Elicitation.Form && c.Capabilities.Elicitation.URL {
		return
	}
	if r, ok := result.(*mcp.CallToolResult); ok && r != nil && err == nil {
		err = r.GetError()
	}
	if err == nil {
		if c.Version.Era() == protocol.Legacy && c.Push == nil && !c.adapter.opts.MustAsk &&
			c.adapter.toldSessionless.CompareAndSwap(false, true) {
			c.adapter.funnel.NoteFailedPush(ctx, c.Call, protocol.KindElicitForm, errSessionless,
				true)
		}
		return
	}
	for _, text := range sdkRefusals() {
		if strings.Contains(err.Error(), text) {
			kind := protocol.KindElicitForm
			if strings.Contains(text, "url") {
				kind = protocol.KindElicitURL
			}
			c.adapter.funnel.NoteFailedPush(ctx, c.Call, kind, errors.New(text), true)
			return
		}
	}
}
