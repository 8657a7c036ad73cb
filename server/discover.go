package server

import (
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

func (s *Server) answerDiscover(request *Request) *protocol.DiscoverResult {
	c := s.declaredCapabilities()
	s.declareExtensions(&c)
	return &protocol.DiscoverResult{
		SupportedVersions: rules.ModernRevisions(),
		Capabilities:      c,
		Instructions:      s.opts.Instructions,
		Cache: protocol.CacheHints{
			TTLMillis: s.opts.ListTTL.Milliseconds(),
			Public:    s.isPublic(request.private),
		},
	}
}

// declaredCapabilities returns capabilities for all features ever registered, and the options' own.
func (s *Server) declaredCapabilities() protocol.ServerCapabilities {
	c := s.opts.Capabilities
	if c.Tools == nil && s.own.tools.used.Load() {
		c.Tools = &protocol.ListCapability{ListChanged: true}
	}
	if c.Prompts == nil && s.own.prompts.used.Load() {
		c.Prompts = &protocol.ListCapability{ListChanged: true}
	}
	if c.Resources == nil && (s.own.resources.used.Load() || s.own.templates.used.Load()) {
		c.Resources = &protocol.ResourcesCapability{ListChanged: true, Subscribe: true}
	}
	c.Logging = &struct{}{} // handlers may log
	if c.Completions == nil && s.completes.Load() {
		c.Completions = &struct{}{}
	}
	if s.opts.NoSubscriptions {
		c = setAnnouncements(c, false)
	}
	return c
}

func (s *Server) offersMethod(method string) bool {
	declared := &s.opts.Capabilities
	switch method {
	case protocol.MethodDiscover:
		return true
	case protocol.MethodListen:
		return !s.opts.NoSubscriptions
	case protocol.MethodComplete:
		return declared.Completions != nil || s.completes.Load()
	case protocol.MethodListTools, protocol.MethodCallTool:
		return declared.Tools != nil || s.own.tools.used.Load()
	case protocol.MethodListPrompts, protocol.MethodGetPrompt:
		return declared.Prompts != nil || s.own.prompts.used.Load()
	case protocol.MethodListResources, protocol.MethodListResourceTemplates,
		protocol.MethodReadResource:
		return declared.Resources != nil || s.own.resources.used.Load() ||
			s.own.templates.used.Load()
	}
	return false
}
