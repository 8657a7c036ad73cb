package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

const (
	refreshPause = time.Second // minimum between two readings of an upstream's lists
	rereadTime   = time.Minute // between readings, if the upstream announces no changes
)

// The type published has digests of a view's definitions, even omitted ones. One goroutine owns it.
type published struct{ tools, prompts, resources, templates digests }

type digests struct {
	of      map[string][32]byte
	leftOut map[string]bool
}

// keepPublished publishes the entries until ctx ends, and keeps them while the upstream is down.
func (v *view) keepPublished(ctx context.Context) {
	u := v.upstream
	read := sync.OnceFunc(func() { close(v.read) })
	defer read()
	for failures := 0; ctx.Err() == nil; failures++ {
		err := v.followLists(ctx, func(version protocol.Version) {
			failures = 0
			v.log(event.LevelInfo, "gateway.upstream_ready", func(out event.Encoder) {
				out.AddString("version", string(version))
			})
			v.ready.Store(true)
			read()
			for name := range u.names.unprefixed {
				_, tool := v.published.tools.of[name]
				if _, prompt := v.published.prompts.of[name]; !tool && !prompt {
					v.log(event.LevelWarn, "gateway.unprefixed_missing", func(out event.Encoder) {
						out.AddString("name", name)
					})
				}
			}
		})
		read()
		if ctx.Err() != nil {
			return
		}
		level, cause, retry := event.LevelWarn, err, retryPause(failures)
		if e, ok := err.(*upstreamError); ok && e.cause != nil {
			cause = e.cause // more detailed than the client's error
		}
		failed := u.gateway.countFailure(ctx, u, err)
		if v != u.own { // the credentials may be a user's
			level = event.LevelInfo
		}
		v.log(level, "gateway.upstream_down", func(out event.Encoder) {
			if cause != nil {
				out.AddString("error", cause.Error())
			}
			failed.addFields(out)
			out.AddFloat64("retry_after", retry.Seconds())
		})
		pause(ctx, retryPause(0))
		select {
		case <-v.retry:
		case <-time.After(retryPause(failures) - retryPause(0)):
		case <-ctx.Done():
		}
	}
}

// log writes an entry about the upstream. fill, which may be nil, adds fields.
func (v *view) log(level event.Level, name string, fill event.EntryFunc) {
	v.upstream.gateway.log(level, name, func(out event.Encoder) {
		out.AddString("upstream", v.upstream.config.Name)
		if fill != nil {
			fill(out)
		}
	})
}

// followLists connects, publishes the lists and follows their changes until the connection ends.
func (v *view) followLists(
	ctx context.Context, ready func(protocol.Version),
) (err error) {
	u := v.upstream
	defer u.gateway.recoverPanic(&err)
	credential, err := v.credential(ctx)
	if err != nil {
		return err
	}
	// Some servers list asking tools only for such clients. Without a call, questions are refused.
	key := connectionKey{credential.Key, u.capabilities(protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{Tools: true, Context: true},
		Roots:       &protocol.RootsCapability{},
		Extensions: map[string]json.RawMessage{
			extensionApps: json.RawMessage(`{"mimeTypes":["text/html;profile=mcp-app"]}`)},
	})}
	conn, err := u.dial(ctx, key, credential)
	if err != nil {
		return err
	}
	defer func() { _ = conn.client.Close() }()
	if err := v.refresh(ctx, conn.client); err != nil {
		return err
	}
	ready(conn.version)
	changed := make(chan struct{}, 1)
	listening, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { v.listen(listening, conn.client, changed) })
	defer func() { stop(); following.Wait() }()
	for {
		select {
		case <-changed:
			if !pause(ctx, refreshPause) {
				return ctx.Err()
			}
		case <-time.After(rereadTime): // also a health check over HTTP
		case <-conn.ended:
			return errUpstreamEnded
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := v.refresh(ctx, conn.client); err != nil {
			return err
		}
	}
}

var errUpstreamEnded = fmt.Errorf("gateway: the upstream has ended the connection")

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (v *view) refresh(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	u, p := v.upstream, &v.published
	err := publishList(v, server.KindTool, &p.tools, c.Tools(ctx),
		func(t *protocol.Tool) string { return u.names.Publish(t.Name) }, v.addTool)
	if err != nil {
		return err
	}
	err = publishList(v, server.KindPrompt, &p.prompts, c.Prompts(ctx),
		func(p *protocol.Prompt) string { return u.names.Publish(p.Name) }, v.addPrompt)
	if err != nil {
		return err
	}
	err = publishList(v, server.KindResource, &p.resources, c.Resources(ctx),
		func(r *protocol.Resource) string { return u.names.PublishURI(r.URI) }, v.addResource)
	if err != nil {
		return err
	}
	return publishList(v, server.KindResourceTemplate, &p.templates, c.ResourceTemplates(ctx),
		func(t *protocol.ResourceTemplate) string { return u.names.PublishURI(t.URITemplate) },
		v.addTemplate)
}

// publishList updates one kind of entries in the catalog. Duplicates, entries beyond the limit and
// invalid ones are left out, which is logged once. If the list breaks off, its beginning is
// published and older entries stay. Only a broken list of tools takes the upstream down: it shows
// whether the credentials are good.
func publishList[E any](v *view, kind server.Kind, have *digests, entries iter.Seq2[E, error],
	nameOf func(*E) string, add func(name string, e *E),
) error {
	u := v.upstream
	now := digests{of: map[string][32]byte{}, leftOut: map[string]bool{}}
	leaveOut := func(name, why string) { v.leaveOut(kind, have, &now, name, why) }
	var wanted []E // in the upstream's order, for clients
	var twice, cut string
	read, broken := 0, false
	for e, err := range entries {
		if err != nil {
			if broken = !isListWhole(err); broken && (kind == server.KindTool || !isAnswer(err)) {
				return u.explain(err)
			}
			cut = err.Error()
			break
		}
		if read++; read > u.gateway.limits.entries {
			cut = fmt.Sprintf("the upstream offers more than %d", read-1)
			break
		}
		name := nameOf(&e)
		if !isPrintable(name) || !isPrintable(shownName(&e)) {
			leaveOut(strconv.QuoteToASCII(name[:min(len(name), 200)]),
				"its name is longer than 4,096 bytes, or has control characters")
			continue
		}
		if _, again := now.of[name]; again {
			twice = cmp.Or(twice, name)
			continue
		}
		definition, err := json.Marshal(e)
		if err != nil {
			return err
		}
		now.of[name] = sha256.Sum256(definition)
		if digest, there := have.of[name]; !there || digest != now.of[name] {
			wanted = append(wanted, e)
		}
	}
	switch {
	case cut != "":
		leaveOut("", cut)
	case twice != "":
		leaveOut(twice, "the upstream has two of this name")
	}
	for name, digest := range have.of {
		if _, still := now.of[name]; still {
			continue
		}
		if broken {
			now.of[name] = digest
			continue
		}
		v.catalog.Remove(kind, name)
	}
	for _, e := range wanted {
		name := nameOf(&e)
		if err := tryAdd(func() { add(name, &e) }); err != nil {
			v.catalog.Remove(kind, name)
			leaveOut(name, err.Error())
		}
	}
	*have = now
	return nil
}

// leaveOut notes an unpublished entry, and logs it unless it was left out before.
func (v *view) leaveOut(kind server.Kind, have, now *digests, name, why string) {
	now.leftOut[name+why] = true
	if have.leftOut[name+why] || len(now.leftOut) > maxLeftOutEntries {
		return
	}
	v.log(event.LevelWarn, "gateway.left_out", func(out event.Encoder) {
		out.AddString("kind", string(kind))
		out.AddString("name", name)
		out.AddString("why", why)
	})
}

// isListWhole reports whether a list is complete although it ended with this error.
func isListWhole(err error) bool {
	said, ok := protocol.AsError(err)
	return errors.Is(err, client.ErrListWhole) || ok && said.Code == protocol.CodeMethodNotFound
}

func isAnswer(err error) bool {
	_, said := protocol.AsError(err)
	return said || isA[*client.ResponseError](err)
}

// shownName returns the name shown with a resource's or template's URI, else "".
func shownName(entry any) string {
	switch e := entry.(type) {
	case *protocol.Resource:
		return e.Name
	case *protocol.ResourceTemplate:
		return e.Name
	}
	return ""
}

// isPrintable reports whether a name or URI has no line breaks, controls or bidi characters.
func isPrintable(name string) bool {
	return len(name) <= maxNameBytes && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
	})
}

const (
	maxLeftOutEntries = 10 // of one list, named in the log
	maxNameBytes      = 4096
)

// tryAdd registers a definition. The server panics for an invalid one.
func tryAdd(add func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	add()
	return nil
}

func (v *view) addTool(name string, t *protocol.Tool) {
	var execution struct {
		TaskSupport string `json:"taskSupport"`
	}
	if json.Unmarshal(t.Extra["execution"], &execution) == nil &&
		execution.TaskSupport == "required" { // tasks are not relayed
		panic("it can only be called as a task") // like the server for invalid definitions
	}
	u, upstreamName, definition := v.upstream, t.Name, *t
	definition.Name = name
	definition.Meta = u.names.PublishAppURIs(t.Meta)
	definition.Extra = maps.Clone(t.Extra)
	delete(definition.Extra, "execution") // calls are passed on without tasks
	report := func(err error) { u.reportOnce("gateway.unchecked", name, err) }
	server.AddRelayedTool(v.catalog, definition, report,
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			return outcomeAs[protocol.CallToolOutcome](u.gateway.callUpstream(ctx, u, &call.Call,
				&protocol.CallToolParams{Name: upstreamName, Arguments: call.Arguments,
					RequestMeta: u.requestMeta(&call.Call)}))
		})
}

func (v *view) addPrompt(name string, p *protocol.Prompt) {
	u, upstreamName := v.upstream, p.Name
	server.AddPrompt(v.catalog, server.Prompt{
		Name: name, Title: p.Title, Description: p.Description, Icons: p.Icons,
		Arguments: p.Arguments, Meta: u.names.PublishAppURIs(p.Meta),
		Extra:    p.Extra,
		Complete: u.completer(protocol.CompleteParams{Prompt: upstreamName}),
	}, func(ctx context.Context, call *server.PromptCall) (protocol.GetPromptOutcome, error) {
		arguments, err := json.Marshal(call.Arguments)
		if err != nil {
			return nil, err
		}
		if call.Arguments == nil {
			arguments = nil
		}
		return outcomeAs[protocol.GetPromptOutcome](u.gateway.callUpstream(ctx, u, &call.Call,
			&protocol.GetPromptParams{Name: upstreamName, Arguments: arguments,
				RequestMeta: u.requestMeta(&call.Call)}))
	})
}

func (v *view) addResource(uri string, r *protocol.Resource) {
	server.AddResource(v.catalog, server.Resource{
		URI: uri, Name: r.Name, Title: r.Title, Description: r.Description, Icons: r.Icons,
		MIMEType: r.MIMEType, Annotations: r.Annotations, Size: r.Size,
		Meta: v.upstream.names.PublishAppURIs(r.Meta), Extra: r.Extra,
	}, v.upstream.readResource)
}

func (v *view) addTemplate(template string, t *protocol.ResourceTemplate) {
	server.AddResourceTemplate(v.catalog, server.ResourceTemplate{
		URITemplate: template, Name: t.Name, Title: t.Title, Description: t.Description,
		Icons: t.Icons, MIMEType: t.MIMEType, Annotations: t.Annotations,
		Meta: v.upstream.names.PublishAppURIs(t.Meta), Extra: t.Extra,
		Complete: v.upstream.completer(protocol.CompleteParams{Template: t.URITemplate}),
	}, v.upstream.readResource)
}

func (u *upstream) readResource(
	ctx context.Context, call *server.ResourceCall,
) (protocol.ReadResourceOutcome, error) {
	own, _ := u.names.OwnURI(call.URI)
	return outcomeAs[protocol.ReadResourceOutcome](u.gateway.callUpstream(ctx, u, &call.Call,
		&protocol.ReadResourceParams{URI: own, RequestMeta: u.requestMeta(&call.Call)}))
}

// requestMeta returns an upstream request's metadata: only the client's log level.
func (u *upstream) requestMeta(call *server.Call) protocol.RequestMeta {
	level := call.Meta.LogLevel
	if level == "" && call.Version.Era() == protocol.Legacy {
		level = protocol.LevelDebug
	}
	return protocol.RequestMeta{LogLevel: level}
}

// completer asks the upstream for suggestions (server/utilities/completion).
func (u *upstream) completer(of protocol.CompleteParams) server.Completer {
	return func(ctx context.Context, call *server.CompleteCall) ([]string, error) {
		conn, release, err := u.gateway.connect(ctx, u, &call.Call)
		if err != nil {
			return nil, errorForClient(err)
		}
		reuse := false // if an authorizer panics
		defer func() { release(reuse) }()
		ctx, done := u.gateway.detach(ctx)
		defer done()
		params := of
		params.Argument, params.Value, params.Context = call.Argument, call.Value, call.Known
		result, err := conn.client.Complete(ctx, &params)
		reuse = !isBroken(err)
		if err != nil {
			return nil, errorForClient(u.explain(err))
		}
		return result.Values, nil
	}
}

// errorForClient returns an error whose text reaches the client where plain ones are hidden.
func errorForClient(err error) error {
	if e, ok := err.(*upstreamError); ok {
		return protocol.Errorf(protocol.CodeInternalError, "%s", e.Error())
	}
	return err
}

func outcomeAs[O protocol.Result](result protocol.Result, err error) (O, error) {
	var none O
	if err != nil {
		return none, err
	}
	outcome, ok := result.(O)
	if !ok {
		return none, fmt.Errorf("gateway: unexpected result %T", result)
	}
	return outcome, nil
}
