package roundtrip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// decideOutcome turns the handler's result into the response, or into questions. The records of
// flow style come first: a handler that ignores an error must not complete.
func (r responder) decideOutcome(ctx context.Context, result protocol.Result,
	err error) (protocol.Result, error) {
	result, err, settled := r.overruleHandler(ctx, result, err)
	if settled {
		return result, err
	}
	if r.failedByCutOff(ctx, result, err) {
		if err != nil {
			r.reportFailure(ctx, err)
		}
		return r.answerCutOff(ctx, false)
	}
	if urls, ok := errors.AsType[*protocol.URLElicitationRequiredError](err); ok && urls != nil {
		var final bool
		if result, err, final = r.askingMode().answerURLs(ctx, r, urls); final {
			return result, err
		}
	}
	if text, refused := r.refusalText(err); refused {
		return r.endInsteadOfAsking(ctx, endRefused(err, text))
	}
	if err != nil {
		r.reportFlowEnd(ctx, words.EndFailed)
		return r.answerError(ctx, err)
	}
	if asks, ok := result.(*protocol.InputRequiredResult); ok && asks != nil {
		return r.askReturned(ctx, asks)
	}
	if err := r.checkComplete(result); err != nil {
		return nil, r.reportBug(ctx, err)
	}
	r.reportIgnoredRefusals(ctx, result)
	if refused := r.findSkippedRefusal(); refused != nil && completes(result, nil) {
		return r.endInsteadOfAsking(ctx, endRefused(refused, refused.Error()+", and the server "+
			"did not ask for that when it ran with the refusal; its result is withheld, but "+
			"what it did in this run is not undone"))
	}
	r.reportFlowEnd(ctx, words.EndComplete)
	return result, nil
}

func (r responder) decideSingleRound(ctx context.Context, result protocol.Result,
	err error) (protocol.Result, error) {
	if err != nil {
		return r.answerError(ctx, err)
	}
	if _, asks := result.(*protocol.InputRequiredResult); asks {
		return nil, r.reportBug(ctx, fmt.Errorf("%s cannot ask for input", r.call.Method))
	}
	if result == nil {
		return nil, r.reportBug(ctx,
			fmt.Errorf("handler returned a nil or wrong result: %T", result))
	}
	return result, nil
}

// overruleHandler replaces the handler's result by what the run has recorded: its end, pending
// questions, or an unfinished visit. It reports false if that result stands.
func (r responder) overruleHandler(ctx context.Context, result protocol.Result,
	err error) (protocol.Result, error, bool) {
	r.endIfUnused()
	f := r.flow
	switch {
	case f == nil:
		return result, err, false
	case f.end != nil && f.end.cut:
		result, err = r.answerCutOff(ctx, r.giveClaimUp())
		return result, err, true
	case f.end != nil && f.end.refusal == nil:
		return nil, r.reportBug(ctx, f.end.err), true
	case f.end != nil:
		if f.end.bug && r.funnel.bugs.addTarget(r.call.Method, r.call.Target) {
			r.observe(ctx, event.ServerBug{Where: r.where, Err: f.end.err})
		}
		r.reportFlowEnd(ctx, f.end.how)
		result, err = r.answerRefusal(ctx, f.end.refusal)
		return result, err, true
	case f.asksClient() && findRefusal(err) != nil && r.ladder.hasAll(f):
		return nil, findRefusal(err), false // the user need not answer the questions beside it
	case len(f.pending) > 0:
	case f.suspendsTask():
		result, err = r.suspendTask(ctx, &draft{onPage: r.ladder.openBeside(nil)})
		return result, err, true
	case len(f.unfinished) > 0 && completes(result, err):
		result, err = r.refuseUnfinished(ctx, f.unfinished[0].key)
		return result, err, true
	default:
		return result, err, false
	}
	asks, err := r.joinQuestions(f, result)
	if err != nil {
		return nil, r.reportBug(ctx, err), true
	}
	return asks, nil, false
}

// joinQuestions combines flow style's pending questions with those that the handler returned.
func (r responder) joinQuestions(f *flowRun,
	result protocol.Result) (*protocol.InputRequiredResult, error) {
	d := &draft{questions: f.pending}
	asks, ok := result.(*protocol.InputRequiredResult)
	if !ok || asks == nil {
		return d.buildResult(&protocol.InputRequiredResult{}), nil
	}
	own, err := r.readDraft(asks)
	if err != nil {
		return nil, err
	}
	d.questions = append(d.questions, own.questions...)
	if own.hasState {
		d.state, d.hasState = own.state, true
	}
	joined := d.buildResult(&protocol.InputRequiredResult{})
	joined.Meta = asks.Meta
	return joined, nil
}

func completes(result protocol.Result, err error) bool {
	if err != nil {
		return false
	}
	switch r := result.(type) {
	case *protocol.InputRequiredResult:
		return false
	case *protocol.CallToolResult:
		return r != nil && !r.IsError
	}
	return true
}

// refuseUnfinished ends a run that would complete despite an unfinished visit.
func (r responder) refuseUnfinished(ctx context.Context, key string) (protocol.Result, error) {
	bug := fmt.Errorf("the handler completes although the visit %q is not finished", key)
	r.mu.Lock()
	asked := r.wasAskedLocked(key)
	r.mu.Unlock()
	if !asked {
		bug = fmt.Errorf("%w, nor has it been asked for: %s", bug, howToAskVisit)
	}
	r.observe(ctx, event.ServerBug{Where: r.where, Err: bug})
	r.reportFlowEnd(ctx, words.EndFailed)
	return r.refuseFlow(protocol.CodeFlowEnded,
		fmt.Sprintf("the visit %q is not finished; %s", key, howToFinish))
}

// checkComplete refuses nil, forged or mistyped results and content that the output schema rejects.
func (e *exchange) checkComplete(result protocol.Result) error {
	ok := false
	switch r := result.(type) {
	case *protocol.CallToolResult:
		ok = r != nil && e.call.Method == protocol.MethodCallTool
		if ok && !r.IsError && e.call.CheckOutput != nil {
			if err := e.call.CheckOutput(r.StructuredContent); err != nil {
				return fmt.Errorf("structuredContent: %w", err)
			}
		}
	case *protocol.GetPromptResult:
		ok = r != nil && e.call.Method == protocol.MethodGetPrompt
	case *protocol.ReadResourceResult:
		ok = r != nil && e.call.Method == protocol.MethodReadResource
	}
	if !ok {
		return fmt.Errorf("handler returned a nil or wrong result: %T", result)
	}
	return nil
}

// reportIgnoredRefusals reports refusals that a handler in guard style never read.
func (r responder) reportIgnoredRefusals(ctx context.Context, result protocol.Result) {
	if failed, ok := result.(*protocol.CallToolResult); r.funnel.silent || ok && failed.IsError {
		return
	}
	for _, a := range r.unreadRefusals() {
		r.observe(ctx, event.DeclineIgnored{Where: r.where, Key: a.key,
			Decision: a.outcome.toDecision()})
	}
}

// unreadRefusals returns the refusals that the handler has not read in this run.
func (r responder) unreadRefusals() (unread []*answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		if a.asRefusal() != nil && (!a.checked || r.isSkippedLocked(a)) {
			unread = append(unread, a)
		}
	}
	return unread
}

// convertURLs turns the URL elicitation error of revision 2025-11-25, which modern revisions lack,
// into questions. Each key is the elicitation's id if present and free, otherwise url-elicitation-N
// with the first free N from its position on; the id is not sent.
func (r responder) convertURLs(
	e *protocol.URLElicitationRequiredError) (*protocol.InputRequiredResult, error) {
	questions, err := urlQuestions(e)
	if err != nil {
		return nil, err
	}
	return (&draft{questions: questions}).buildResult(&protocol.InputRequiredResult{}), nil
}

// urlQuestions returns the error's questions, marked so that repeated visits are recognized.
func urlQuestions(e *protocol.URLElicitationRequiredError) ([]Question, error) {
	if len(e.Elicitations) == 0 {
		return nil, errors.New("handler returned a URL elicitation error without elicitations")
	}
	if i := slices.Index(e.Elicitations, nil); i >= 0 {
		return nil, fmt.Errorf("handler returned a URL elicitation error whose entry %d is nil", i)
	}
	keys := urlrule.Keys(e.Elicitations, len(e.Elicitations))
	questions := make([]Question, len(keys))
	for i, u := range e.Elicitations {
		q, err := ElicitURL(keys[i], u.Message, u.URL), error(nil)
		if q.mark, err = q.makeMark(); err != nil {
			return nil, err
		}
		questions[i] = q
	}
	return questions, nil
}

// answerLegacyURLs passes the error to clients that declare URL elicitation, and refuses others.
func (r responder) answerLegacyURLs(ctx context.Context,
	e *protocol.URLElicitationRequiredError) (protocol.Result, error) {
	missing := r.call.Capabilities.Missing(&protocol.ElicitURL{})
	if r.call.Version != protocol.V20251125 || !missing.IsZero() {
		r.observe(ctx, event.CapabilityRefused{Where: r.where, Missing: missing})
		return r.refuseFlow(protocol.CodeCannotAsk,
			"the client cannot be asked to visit a URL, which this request needs; use a client "+
				"of revision 2025-11-25 or later that declares elicitation.url")
	}
	spelled, err := e.Legacy()
	if err != nil {
		return nil, r.reportBug(ctx, err)
	}
	if refusal := urlrule.Hook(r.funnel.opts.AllowURL).RefuseAny(e.Elicitations); refusal != nil {
		return nil, r.reportBug(ctx, refusal)
	}
	return nil, spelled
}

// answerError answers a handler's error: an [*protocol.Error] unchanged, others as readable text.
func (r responder) answerError(ctx context.Context, err error) (protocol.Result, error) {
	if e, ok := protocol.AsError(err); ok {
		return nil, r.spellError(ctx, e)
	}
	text := r.reportFailure(ctx, err)
	if r.call.Method == protocol.MethodCallTool {
		return errorResult(text), nil
	}
	return nil, protocol.Errorf(protocol.CodeHandlerError, "%s", text)
}

// spellError translates err to the call's revision. Handlers must not use errors that it lacks.
func (r responder) spellError(ctx context.Context, e *protocol.Error) *protocol.Error {
	spelled, err := rules.SpellHandlerError(r.call.Version, e)
	switch {
	case err != nil && e.Code == protocol.CodeURLElicitationRequired &&
		r.askingMode().returnsQuestions():
		err = fmt.Errorf("%w; return a URLElicitationRequiredError or InputRequired", err)
		fallthrough
	case err != nil:
		r.observe(ctx, event.ServerBug{Where: r.where, Err: err})
		return rules.InternalError()
	case spelled.Code == protocol.CodeURLElicitationRequired:
		if refusal := urlrule.Hook(r.funnel.opts.AllowURL).RefuseRequired(spelled); refusal != nil {
			r.observe(ctx, event.ServerBug{Where: r.where, Err: refusal})
			return refusal.Wire()
		}
	}
	return spelled
}

// refusalText returns the text for a refusal, or false for other errors and the author's own codes.
func (e *exchange) refusalText(err error) (text string, ok bool) {
	refused := findRefusal(err)
	if _, own := protocol.AsError(err); own || refused == nil {
		return "", false
	}
	if e.funnel.opts.HideErrors {
		return refused.Error(), true
	}
	return err.Error(), true
}

// A refusal ends a flow: as a tool's error result, or a JSON-RPC error of other methods.
type refusal struct {
	code int64
	text string
	// wire, if not nil, goes out unchanged; for tools only if always is set.
	wire   *protocol.Error
	always bool
}

func (r responder) answerRefusal(ctx context.Context, no *refusal) (protocol.Result, error) {
	busy := no.wire != nil && no.wire.Code == protocol.CodeBusy
	if p := waiting.PageOf(ctx); p.Acted && p.Kept.IsZero() && (busy || !no.always) {
		text := no.text // and nobody is to repeat the call by itself
		if busy {
			text = no.wire.Message
		}
		text, _, _ = strings.Cut(strings.TrimSuffix(text, ". "+waiting.UnknownEffect), "; call again")
		return r.refuseFlow(cmp.Or(no.code, protocol.CodeFlowEnded), text+". "+waiting.UnknownEffect)
	}
	if no.wire != nil && (no.always || r.call.Method != protocol.MethodCallTool) {
		return nil, no.wire
	}
	return r.refuseFlow(no.code, no.text)
}

// refuseFlow returns the response of a flow that ends with text for the user or the model.
func (r responder) refuseFlow(code int64, text string) (protocol.Result, error) {
	if r.call.Method == protocol.MethodCallTool {
		return errorResult(text), nil
	}
	return nil, protocol.Errorf(code, "%s", text)
}

// endRefused ends a flow refused with err, and appends advice for the model to text.
func endRefused(err error, text string) *ending {
	how, code := event.FlowEnd(words.EndRefused), int64(protocol.CodeRefused)
	switch findRefusal(err).(type) {
	case *DeclinedError:
		text += "; the person does not want this: do not call again unless they ask for it"
	case *UnseenError:
		how, code = words.EndUnseen, protocol.CodeCannotAsk
		text += "; the client answered without showing the question, so nobody was asked: call " +
			"again from a client that shows questions to a person, or use the link of the tool " +
			"if it has one"
	default:
		text += "; the person has not decided: call again only if they want to"
	}
	return &ending{how: how, refusal: &refusal{code: code, text: text}}
}

func errorResult(text string) *protocol.CallToolResult {
	return &protocol.CallToolResult{
		Content: []protocol.Content{&protocol.TextContent{Text: text}},
		IsError: true,
	}
}

// reportBug reports a mistake of the server and returns the client's error.
func (r responder) reportBug(ctx context.Context, err error) *protocol.Error {
	r.observe(ctx, event.ServerBug{Where: r.where, Err: err})
	r.reportFlowEnd(ctx, words.EndFailed)
	if refusal, ok := errors.AsType[*urlrule.Refusal](err); ok {
		return refusal.Wire()
	}
	return rules.InternalError()
}

// reportFlowEnd reports the end of a flow of several rounds.
func (r *run) reportFlowEnd(ctx context.Context, how event.FlowEnd) {
	if r.prior != nil && !r.funnel.silent {
		r.observe(ctx, event.FlowEnded{Where: r.where, Legs: r.where.Round, How: how})
	}
}

// reportFailure reports an error of the handler and returns the client's text.
func (r responder) reportFailure(ctx context.Context, err error) string {
	text := err.Error()
	e := event.HandlerFailed{Where: r.where, Err: err}
	if r.funnel.opts.HideErrors {
		e.Reference = newReference()
	}
	if !r.funnel.silent {
		e.Text = r.maskSecrets(text)
		e.Abandoned = ctx.Err() != nil && errors.Is(err, context.Canceled)
		r.observe(ctx, e)
	}
	if r.funnel.opts.HideErrors {
		return "internal failure; reference " + e.Reference +
			"; try again later, and give the reference to the operator of the server if it fails " +
			"again"
	}
	return text
}

// reportPanic must be called by the deferred function that recovered v, for the stack trace.
func (r *run) reportPanic(ctx context.Context, v any) {
	e := event.HandlerPanicked{Where: r.where, Value: v}
	if !r.funnel.silent {
		e.Text, e.Stack = r.maskSecrets(fmt.Sprint(v)), debug.Stack()
	}
	r.observe(ctx, e)
}

// maskSecrets masks the call's arguments, credentials, state and answers in the handler's text.
func (r *run) maskSecrets(text string) string {
	var secrets redact.Secrets
	secrets.AddJSON(r.call.Arguments)
	secrets.AddCredential(r.call.Credential)
	if state, _ := r.received.Text(); state != "" {
		secrets.AddText(state)
	}
	if i := strings.IndexAny(r.call.Target, "?#"); i >= 0 { // of a URI
		secrets.AddText(r.call.Target[i+1:])
	}
	for _, response := range r.responses {
		secrets.AddJSON(response.Result)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		secrets.AddJSON(a.content)
	}
	secrets.AddJSON(r.state)
	for _, m := range r.memos {
		secrets.AddJSON(m.Value)
	}
	return secrets.Redact(text)
}
