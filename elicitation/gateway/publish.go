package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	// refreshPause is the least time between two readings of an upstream's lists, whatever it
	// announces.
	refreshPause = time.Second
	// rereadTime is how often the lists of an upstream are read that announces no changes.
	rereadTime = time.Minute
)

// published is what an upstream has at the server: digests of the definitions by published name.
// Only the goroutine of keepPublished uses it.
type published struct{ tools, prompts, resources, templates map[string][32]byte }

// keepPublished publishes what the upstream offers, until the gateway ends. What was published
// stays while the upstream is down; calls say that it cannot be reached.
func (u *upstream) keepPublished() {
	life, log := u.gateway.life, u.gateway.log.With(zap.String("upstream", u.config.Name))
	for failures := 0; life.Err() == nil; failures++ {
		err := u.followLists(life, func() {
			failures = 0
			log.Info("gateway.upstream_ready")
			for name := range u.names.Unprefixed() {
				_, tool := u.published.tools[name]
				if _, prompt := u.published.prompts[name]; !tool && !prompt {
					log.Warn("gateway.unprefixed_missing", zap.String("name", name))
				}
			}
		})
		if life.Err() != nil {
			return
		}
		log.Warn("gateway.upstream_down", zap.Error(causeOf(err)),
			zap.Duration("retry_after", retryPause(failures)))
		select {
		case <-time.After(retryPause(failures)):
		case <-life.Done():
		}
	}
}

// causeOf returns what a log tells of an error: more than the client gets.
func causeOf(err error) error {
	if e, ok := err.(*upstreamError); ok && e.cause != nil {
		return e.cause
	}
	return err
}

// followLists connects, publishes the lists and follows their changes until the connection ends.
func (u *upstream) followLists(ctx context.Context, ready func()) (err error) {
	defer u.gateway.recoverPanic(&err)
	var credential Credential
	if u.config.Credential != nil {
		var err error
		if credential, err = u.config.Credential(ctx, protocol.Principal{}); err != nil {
			return err
		}
	}
	// Some servers list tools that ask only to clients that can be asked. On this connection no
	// call runs, so that every question is refused.
	key := connectionKey{credential.Key, u.capabilities(protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{Tools: true, Context: true},
	})}
	conn, err := u.dial(ctx, key, credential)
	if err != nil {
		return err
	}
	defer func() { _ = conn.client.Close() }()
	if err := u.refresh(ctx, conn.client); err != nil {
		return err
	}
	ready()
	changed := make(chan struct{}, 1)
	listening, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		u.listen(listening, conn.client, changed)
	}()
	defer func() { stop(); <-ended }()
	for {
		select {
		case <-changed:
			if !pause(ctx, refreshPause) {
				return ctx.Err()
			}
		case <-time.After(rereadTime): // also shows whether an upstream over HTTP is still there
		case <-conn.ended:
			return errUpstreamEnded
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := u.refresh(ctx, conn.client); err != nil {
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

// refresh reads the lists and publishes what differs from what was published before.
func (u *upstream) refresh(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	p, srv := &u.published, u.gateway.server
	toolName := func(t *protocol.Tool) string { return u.names.Publish(t.Name) }
	err := publishList(u, "tools", &p.tools, c.Tools(ctx), toolName, u.addTool, srv.RemoveTool)
	if err != nil {
		return err
	}
	promptName := func(p *protocol.Prompt) string { return u.names.Publish(p.Name) }
	err = publishList(
		u, "prompts", &p.prompts, c.Prompts(ctx), promptName, u.addPrompt, srv.RemovePrompt,
	)
	if err != nil {
		return err
	}
	resourceURI := func(r *protocol.Resource) string { return u.names.PublishURI(r.URI) }
	err = publishList(u, "resources", &p.resources, c.Resources(ctx), resourceURI,
		u.addResource, srv.RemoveResource)
	if err != nil {
		return err
	}
	templateURI := func(t *protocol.ResourceTemplate) string {
		return u.names.PublishURI(t.URITemplate)
	}
	return publishList(u, "templates", &p.templates, c.ResourceTemplates(ctx), templateURI,
		u.addTemplate, srv.RemoveResourceTemplate)
}

// publishList brings one kind of entries at the server up to date. Entries of one name, beyond the
// limit, or that the server does not take are left out, and the log says so.
func publishList[E any](u *upstream, kind string, have *map[string][32]byte,
	entries iter.Seq2[E, error], nameOf func(*E) string, add func(name string, e *E),
	remove func(name string) bool,
) error {
	log := u.gateway.log.With(zap.String("upstream", u.config.Name), zap.String("kind", kind))
	now := map[string][32]byte{}
	wanted := map[string]*E{}
	var order []string // clients see entries in the order of the upstream
	for e, err := range entries {
		if err != nil {
			return u.explain(err)
		}
		name := nameOf(&e)
		if _, twice := wanted[name]; twice {
			log.Warn("gateway.left_out", zap.String("name", name),
				zap.String("why", "the upstream has two of this name"))
			continue
		}
		if len(wanted) == u.gateway.limits.Entries {
			log.Warn("gateway.left_out", zap.String("why", "the upstream offers too many"),
				zap.Int("limit", u.gateway.limits.Entries))
			break
		}
		wanted[name] = &e
		order = append(order, name)
		definition, err := json.Marshal(e)
		if err != nil {
			return err
		}
		now[name] = sha256.Sum256(definition)
	}
	for name := range *have {
		if now[name] != (*have)[name] {
			remove(name)
			delete(*have, name)
		}
	}
	if *have == nil {
		*have = map[string][32]byte{}
	}
	for _, name := range order {
		if _, there := (*have)[name]; there {
			continue
		}
		if err := tryAdd(func() { add(name, wanted[name]) }); err != nil {
			log.Warn("gateway.left_out", zap.String("name", name), zap.Error(err))
		}
		(*have)[name] = now[name] // also where it was refused, which is then said once
	}
	return nil
}

// tryAdd registers a definition. The server panics for one that cannot work, as those of its own
// program are mistakes.
func tryAdd(add func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	add()
	return nil
}

// needsTask reports whether a tool can be called as a task alone, which is not passed on.
func needsTask(t *protocol.Tool) bool {
	var execution struct {
		TaskSupport string `json:"taskSupport"`
	}
	return json.Unmarshal(t.Extra["execution"], &execution) == nil &&
		execution.TaskSupport == "required"
}

func (u *upstream) addTool(name string, t *protocol.Tool) {
	if needsTask(t) {
		panic("it can be called as a task alone") // as the server does for what cannot work
	}
	definition := server.Tool{
		Name: name, Title: t.Title, Description: t.Description, Icons: t.Icons,
		Annotations: t.Annotations, Meta: t.Meta,
		InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
	}
	upstreamName := t.Name
	server.AddRawTool(u.gateway.server, definition,
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			return outcomeAs[protocol.CallToolOutcome](u.gateway.callUpstream(ctx, u, &call.Call,
				&protocol.CallToolParams{Name: upstreamName, Arguments: call.Arguments,
					RequestMeta: u.requestMeta(&call.Call)}))
		})
}

func (u *upstream) addPrompt(name string, p *protocol.Prompt) {
	upstreamName := p.Name
	server.AddPrompt(u.gateway.server, server.Prompt{
		Name: name, Title: p.Title, Description: p.Description, Icons: p.Icons,
		Arguments: p.Arguments, Meta: p.Meta,
		Complete: u.completer(protocol.CompletionRef{Prompt: upstreamName}),
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

func (u *upstream) addResource(uri string, r *protocol.Resource) {
	server.AddResource(u.gateway.server, server.Resource{
		URI: uri, Name: r.Name, Title: r.Title, Description: r.Description, Icons: r.Icons,
		MIMEType: r.MIMEType, Annotations: r.Annotations, Size: r.Size, Meta: r.Meta,
	}, u.readResource)
}

func (u *upstream) addTemplate(template string, t *protocol.ResourceTemplate) {
	server.AddResourceTemplate(u.gateway.server, server.ResourceTemplate{
		URITemplate: template, Name: t.Name, Title: t.Title, Description: t.Description,
		Icons: t.Icons, MIMEType: t.MIMEType, Annotations: t.Annotations, Meta: t.Meta,
		Complete: u.completer(protocol.CompletionRef{Template: t.URITemplate}),
	}, u.readResource)
}

func (u *upstream) readResource(
	ctx context.Context, call *server.ResourceCall,
) (protocol.ReadResourceOutcome, error) {
	own, _ := u.names.OwnURI(call.URI)
	return outcomeAs[protocol.ReadResourceOutcome](u.gateway.callUpstream(ctx, u, &call.Call,
		&protocol.ReadResourceParams{URI: own,
			RequestMeta: u.requestMeta(&call.Call)}))
}

// requestMeta returns the metadata of a request upstream: nothing of the client's but the level of
// the logs. The rest is made anew for each connection. The level of a session is known to the
// server alone, which drops what is below it.
func (u *upstream) requestMeta(call *server.Call) protocol.RequestMeta {
	level := call.Meta.LogLevel
	if level == "" && call.Version.Era() == protocol.Legacy {
		level = protocol.LevelDebug
	}
	return protocol.RequestMeta{LogLevel: level}
}

// completer asks the upstream for suggestions (server/utilities/completion).
func (u *upstream) completer(ref protocol.CompletionRef) server.Completer {
	return func(ctx context.Context, call *server.CompleteCall) ([]string, error) {
		conn, release, err := u.gateway.connect(ctx, u, &call.Call)
		if err != nil {
			return nil, errorForClient(err)
		}
		ctx, done := u.gateway.detach(ctx)
		defer done()
		result, err := conn.client.Complete(ctx, &protocol.CompleteParams{
			Ref:      ref,
			Argument: protocol.CompletionArgument{Name: call.Argument, Value: call.Value},
			Context:  call.Known,
		})
		release(!isBroken(err))
		if err != nil {
			return nil, errorForClient(u.explain(err))
		}
		return result.Values, nil
	}
}

// errorForClient returns an error whose text the client reads where plain ones are hidden from it.
func errorForClient(err error) error {
	if e, ok := err.(*upstreamError); ok {
		return protocol.Errorf(protocol.CodeInternalError, "%s", e.Error())
	}
	return err
}

// outcomeAs returns a result as the outcome that the method may have.
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
