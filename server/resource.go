package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Resource describes a resource to register (server/resources). It must not be changed later.
type Resource struct {
	URI         string // unique within the server, compared byte by byte
	Name        string
	Title       string
	Description string
	Icons       []protocol.Icon
	MIMEType    string
	Annotations *protocol.Annotations
	Size        *int64 // in bytes, nil when unknown
	Meta        protocol.Meta
	// Extra holds members of the definition that this library does not know.
	Extra map[string]json.RawMessage
	// Needs, Scopes and AcceptUnsolicited are as in [Tool].
	Needs             protocol.ClientCapabilities
	Scopes            []string
	AcceptUnsolicited bool
}

// A ResourceTemplate describes a family of resources to register.
type ResourceTemplate struct {
	// URITemplate is an RFC 6570 template with two kinds of expressions: {name} matches one or more
	// characters that are not reserved in URIs, {+name} anything. URIs over 16 KiB never match.
	URITemplate string
	Name        string
	Title       string
	Description string
	Icons       []protocol.Icon
	MIMEType    string
	Annotations *protocol.Annotations
	Meta        protocol.Meta
	// Extra is as in [Resource].
	Extra map[string]json.RawMessage
	// Needs, Scopes and AcceptUnsolicited are as in [Tool].
	Needs             protocol.ClientCapabilities
	Scopes            []string
	AcceptUnsolicited bool
	Complete          Completer // suggests values for the expressions; may be nil
}

// A ResourceCall is one leg of a request for a resource.
type ResourceCall struct {
	Call
	URI string
	// Variables are the percent-decoded values of the template's expressions; nil for a plain
	// resource. A value may hold "../" and "/": check it before using it in a file name.
	Variables map[string]string
}

// A ResourceHandler reads a resource, or asks for missing input. Contents without a URI get that of
// the request. Clients may cache the result only if it sets Cache. It returns
// [protocol.ResourceNotFound] for an unknown resource.
type ResourceHandler func(ctx context.Context, call *ResourceCall) (protocol.ReadResourceOutcome,
	error)

type resourceReader struct {
	needs             protocol.ClientCapabilities
	scopes            []string
	acceptUnsolicited bool
	handle            ResourceHandler
}

type resource struct {
	resourceReader
	definition protocol.Resource
}

type template struct {
	resourceReader
	definition protocol.ResourceTemplate
	matcher    *uriMatcher
	complete   Completer
}

func (r *resource) entryKey() string { return r.definition.URI }
func (t *template) entryKey() string { return t.definition.URITemplate }

// AddResource registers a resource, even while the server runs. It panics if r is invalid: no URI
// or (except in a [Catalog]) a taken one or one without a scheme, no name, no handler.
func AddResource(s Registrar, r Resource, handler ResourceHandler) {
	c := s.registrations()
	err := checkName(r.URI)
	if u, bad := url.Parse(r.URI); err == nil && c == &c.server.own && (bad != nil || !u.IsAbs()) {
		err = errors.New("its URI must have a scheme, as file:///notes.txt has")
	}
	mustRegister("resource", r.URI, checkHandler(handler != nil), err, checkName(r.Name),
		validateScopes(r.Scopes))
	c.server.noteResourceScopes(r.Scopes)
	mustRegister("resource", r.URI, c.resources.addEntry(&resource{
		resourceReader: resourceReader{r.Needs, r.Scopes, r.AcceptUnsolicited, handler},
		definition: protocol.Resource{
			URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, Icons: r.Icons,
			MIMEType: r.MIMEType, Annotations: r.Annotations, Size: r.Size, Meta: r.Meta,
			Extra: r.Extra,
		},
	}))
}

// AddResourceTemplate registers a family of resources. Registered resources take precedence; among
// templates the first match wins. It panics as [AddResource] does, and for unsupported templates.
func AddResourceTemplate(s Registrar, t ResourceTemplate, handler ResourceHandler) {
	c := s.registrations()
	matcher, err := newURIMatcher(t.URITemplate)
	mustRegister("resource template", t.URITemplate, checkHandler(handler != nil),
		checkName(t.Name), validateScopes(t.Scopes), err)
	c.server.noteResourceScopes(t.Scopes)
	mustRegister("resource template", t.URITemplate, c.templates.addEntry(&template{
		resourceReader: resourceReader{t.Needs, t.Scopes, t.AcceptUnsolicited, handler},
		definition: protocol.ResourceTemplate{
			URITemplate: t.URITemplate, Name: t.Name, Title: t.Title, Description: t.Description,
			Icons: t.Icons, MIMEType: t.MIMEType, Annotations: t.Annotations, Meta: t.Meta,
			Extra: t.Extra,
		},
		matcher:  matcher,
		complete: t.Complete,
	}))
	c.server.noteCompleter(t.Complete)
}

// noteResourceScopes records that subscriptions must be checked.
func (s *Server) noteResourceScopes(scopes []string) {
	if len(scopes) > 0 {
		s.resourceScopes.Store(true)
	}
}

// RemoveResource removes a resource and reports whether it existed.
func (s *Server) RemoveResource(uri string) bool { return s.own.resources.removeEntry(uri) }

// RemoveResourceTemplate removes a template and reports whether it existed.
func (s *Server) RemoveResourceTemplate(uriTemplate string) bool {
	return s.own.templates.removeEntry(uriTemplate)
}

func renderResources(resources []*resource, next string,
	cache protocol.CacheHints) protocol.Result {
	return &protocol.ListResourcesResult{NextCursor: next, Cache: cache,
		Resources: definitionsOf(resources, func(r *resource) protocol.Resource {
			return r.definition
		})}
}

func renderTemplates(templates []*template, next string,
	cache protocol.CacheHints) protocol.Result {
	return &protocol.ListResourceTemplatesResult{NextCursor: next, Cache: cache,
		ResourceTemplates: definitionsOf(templates, func(t *template) protocol.ResourceTemplate {
			return t.definition
		})}
}

// findReader returns uri's reader and template variables. Templates do not reveal hidden resources.
func (s *Server) findReader(request *Request, uri string) (*resourceReader, map[string]string) {
	if r, ok := find(s, request, KindResource, resourcesOf, uri); r != nil {
		if !ok {
			return nil, nil
		}
		return &r.resourceReader, nil
	}
	for _, t := range snapshotFor(s, request, templatesOf).entries {
		if variables, ok := t.matcher.matchURI(uri); ok &&
			s.isVisible(request.Principal, KindResourceTemplate, t.entryKey()) {
			return &t.resourceReader, variables
		}
	}
	return nil, nil
}

func (s *Server) readResource(ctx context.Context, request *Request,
	params *protocol.ReadResourceParams) (protocol.Result, error) {
	r, variables := s.findReader(request, params.URI)
	if r == nil {
		return nil, protocol.ResourceNotFound(params.URI)
	}
	if err := request.checkScopes(r.scopes); err != nil {
		return nil, err
	}
	if err := s.checkNeeds(ctx, request, r.needs); err != nil {
		return nil, err
	}
	call := roundtripCall(request, nil, &params.Retry)
	call.AcceptUnsolicited = r.acceptUnsolicited
	request.releaseBody()
	return s.funnel.Do(ctx, call, func(ctx context.Context) (protocol.Result, error) {
		result, err := r.handle(ctx,
			&ResourceCall{Call: newCall(ctx, request), URI: params.URI, Variables: variables})
		if read, ok := result.(*protocol.ReadResourceResult); ok && err == nil {
			return fillURIs(read, params.URI), nil
		}
		return s.convertOutcome(ctx, request, result, err)
	})
}

// fillURIs sets missing URIs in a copy: the handler's value may be shared.
func fillURIs(result *protocol.ReadResourceResult, uri string) *protocol.ReadResourceResult {
	if result == nil || !slices.ContainsFunc(result.Contents,
		func(c protocol.ResourceContents) bool { return c.URI == "" }) {
		return result
	}
	filled := *result
	filled.Contents = slices.Clone(result.Contents)
	for i := range filled.Contents {
		filled.Contents[i].URI = cmp.Or(filled.Contents[i].URI, uri)
	}
	return &filled
}
