package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// ownSession is a session type of the host's author.
type ownSession struct {
	server.ClientSession
	tools map[string]server.ServerTool
	level mcp.LoggingLevel
}

func (s *ownSession) GetSessionTools() map[string]server.ServerTool  { return s.tools }
func (s *ownSession) SetSessionTools(t map[string]server.ServerTool) { s.tools = t }
func (s *ownSession) SetLogLevel(l mcp.LoggingLevel)                 { s.level = l }
func (s *ownSession) GetLogLevel() mcp.LoggingLevel                  { return s.level }

// TestShadow: behind the session that stands in, everything is the client's.
func TestShadow(t *testing.T) {
	channel := make(chan mcp.JSONRPCNotification, 1)
	real := &ownSession{ClientSession: channelSession{channel}, level: mcp.LoggingLevelDebug}
	s := newHostServer()
	s.AddTool(mcp.NewTool("look"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			session := server.ClientSessionFromContext(ctx)
			if session == server.ClientSession(real) {
				t.Error("nothing stands in")
			}
			if mcpgo.Session(ctx) != server.ClientSession(real) {
				t.Errorf("behind it is %v", mcpgo.Session(ctx))
			}
			if session.SessionID() != "own" ||
				session.(server.SessionWithLogging).GetLogLevel() != mcp.LoggingLevelDebug {
				t.Error("it is not the client's")
			}
			session.(server.SessionWithTools).SetSessionTools(map[string]server.ServerTool{"x": {}})
			if err := s.SendNotificationToClient(ctx, "notifications/test", nil); err != nil {
				t.Error(err)
			}
			_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form("Sure?")})
			return nil, err
		})
	install(t, s, &mcpgo.Options{UnmodifiedHandlers: true})
	reply := s.HandleMessage(s.WithContext(t.Context(), real),
		json.RawMessage(request{method: protocol.MethodCallTool, target: "look"}.message()))
	raw, err := json.Marshal(reply)
	if err != nil || !strings.Contains(string(raw), "input_required") {
		t.Errorf("got %s, %v", raw, err)
	}
	if len(real.tools) != 1 || len(channel) != 1 {
		t.Errorf("%d tools and %d notifications reached the client's session", len(real.tools),
			len(channel))
	}
}

type channelSession struct{ out chan mcp.JSONRPCNotification }

func (s channelSession) Initialize()                                         {}
func (s channelSession) Initialized() bool                                   { return true }
func (s channelSession) SessionID() string                                   { return "own" }
func (s channelSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.out }

// fullSession has all that a session can have.
type fullSession struct {
	*server.InProcessSession
	tools     map[string]server.ServerTool
	resources map[string]server.ServerResource
	templates map[string]server.ServerResourceTemplate
	upgraded  bool
}

func (s *fullSession) GetSessionTools() map[string]server.ServerTool          { return s.tools }
func (s *fullSession) SetSessionTools(t map[string]server.ServerTool)         { s.tools = t }
func (s *fullSession) GetSessionResources() map[string]server.ServerResource  { return s.resources }
func (s *fullSession) SetSessionResources(r map[string]server.ServerResource) { s.resources = r }
func (s *fullSession) UpgradeToSSEWhenReceiveNotification()                   { s.upgraded = true }
func (s *fullSession) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	return s.templates
}
func (s *fullSession) SetSessionResourceTemplates(t map[string]server.ServerResourceTemplate) {
	s.templates = t
}

// TestShadowDelegates: what mcp-go looks for in a session it finds, and what is
// set reaches the client's.
func TestShadowDelegates(t *testing.T) {
	real := &fullSession{InProcessSession: server.NewInProcessSession("full", nil)}
	real.SetProtocolVersion(v20251125)
	s := newHostServer()
	s.AddTool(mcp.NewTool("look"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			session := server.ClientSessionFromContext(ctx)
			session.Initialize()
			session.(server.SessionWithLogging).SetLogLevel(mcp.LoggingLevelAlert)
			info := session.(server.SessionWithClientInfo)
			info.SetClientInfo(mcp.Implementation{Name: "renamed"})
			info.SetClientCapabilities(mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{}})
			session.(server.SessionWithTools).SetSessionTools(map[string]server.ServerTool{"t": {}})
			session.(server.SessionWithResources).SetSessionResources(
				map[string]server.ServerResource{"r": {}})
			templates := session.(server.SessionWithResourceTemplates)
			templates.SetSessionResourceTemplates(
				map[string]server.ServerResourceTemplate{"m": {}})
			session.(server.SessionWithStreamableHTTPConfig).UpgradeToSSEWhenReceiveNotification()
			return mcp.NewToolResultText(fmt.Sprint(session.Initialized(),
					info.GetClientInfo().Name,
					info.GetClientCapabilities().Sampling != nil,
					session.(server.SessionWithLogging).GetLogLevel(),
					session.(server.SessionWithProtocolVersion).ProtocolVersion(),
					len(session.(server.SessionWithTools).GetSessionTools()),
					len(session.(server.SessionWithResources).GetSessionResources()),
					len(templates.GetSessionResourceTemplates()))),
				nil
		})
	install(t, s, &mcpgo.Options{UnmodifiedHandlers: true})
	reply := s.HandleMessage(s.WithContext(t.Context(), real),
		json.RawMessage(request{method: protocol.MethodCallTool, target: "look"}.message()))
	raw, err := json.Marshal(reply)
	if want := "truerenamedtruealert2025-11-251 1 1"; err != nil ||
		!strings.Contains(string(raw), want) {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
	if !real.Initialized() || real.GetClientInfo().Name != "renamed" ||
		real.GetLogLevel() != mcp.LoggingLevelAlert ||
		len(real.tools)+len(real.resources)+len(real.templates) != 3 || !real.upgraded {
		t.Errorf("not all of it reached the client's session: %+v", real)
	}
}

// TestUnmodifiedConcurrently: questions that goroutines put are asked one a
// round, each once.
func TestUnmodifiedConcurrently(t *testing.T) {
	s := newHostServer()
	s.AddTool(mcp.NewTool("many"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var all sync.WaitGroup
			texts := make([]string, 4)
			errs := make([]error, 4)
			for i, message := range []string{"One?", "Two?", "Three?", "Four?"} {
				q := form(message)
				q.RequestedSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"zeal":{"type":"string","maxLength":%d}}}`, 10+i))
				all.Go(func() {
					answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: q})
					if errs[i] = err; err == nil {
						texts[i] = string(answer.Action)
					}
				})
			}
			all.Wait()
			return mcp.NewToolResultText(strings.Join(texts, " ")), errors.Join(errs...)
		})
	who := newPerson(nil)
	got, err := links(modern)["rondo/http"](t,
		install(t, s, &mcpgo.Options{UnmodifiedHandlers: true}), s, who).tool(within(t), "many",
		nil)
	if err != nil || got != "accept accept accept accept" {
		t.Errorf("got %q, %v", got, err)
	}
	who.once(t, "One?", "Two?", "Three?", "Four?")
}

// TestUnmodifiedChangesItsMind: a handler whose question is another in every run is found in
// the second, and nobody is asked again.
func TestUnmodifiedChangesItsMind(t *testing.T) {
	runs := 0
	s := newHostServer()
	s.AddTool(mcp.NewTool("clock"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			runs++
			_, err := s.RequestElicitation(ctx,
				mcp.ElicitationRequest{Params: form(fmt.Sprintf("Now, at %d?", runs))})
			return mcp.NewToolResultText("done"), err
		})
	found := &bugs{}
	who := newPerson(nil)
	a := install(t, s, &mcpgo.Options{UnmodifiedHandlers: true,
		Options: roundtrip.Options{Observer: found}})
	got, err := links(modern)["rondo/http"](t, a, s, who).tool(within(t), "clock", nil)
	if err != nil || !strings.Contains(got, "roundtrip.Nonce") || runs != 2 {
		t.Errorf("got %q, %v after %d runs", got, err, runs)
	}
	if err := found.err(); err == nil || !strings.Contains(err.Error(), "asked another question") {
		t.Errorf("reported %v", err)
	}
	who.once(t, "Now, at 1?")
}

// The same question twice is two questions, also after a refusal, whatever carries them.
func TestUnmodifiedAsksTheSameTwice(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		for name := range links(revision) {
			t.Run(revision+"/"+name, func(t *testing.T) {
				s := newHostServer()
				s.AddTool(mcp.NewTool("twice"), func(ctx context.Context,
					_ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					var said []string
					for range 2 {
						answer, err := s.RequestElicitation(ctx,
							mcp.ElicitationRequest{Params: form("Sure?")})
						if err != nil {
							return nil, err
						}
						said = append(said, string(answer.Action))
					}
					return mcp.NewToolResultText(strings.Join(said, " ")), nil
				})
				who := newPerson(map[string]string{"Sure?": "decline"})
				a := install(t, s, &mcpgo.Options{UnmodifiedHandlers: true})
				got, err := links(revision)[name](t, a, s, who).tool(within(t), "twice", nil)
				if err != nil || got != "decline decline" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
	}
}
