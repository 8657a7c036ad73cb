package gateway

import (
	"encoding/json"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// Names and URIs of an upstream are published under a prefix that is made of its name alone: the
// order in which upstreams come and what they call their tools decide nothing. A name of an
// upstream has neither '_' nor '+', so that every published name has one reading.

// toolName returns the name under which a tool or prompt is published.
func (u *upstream) publishedName(name string) string {
	if u.unprefixed[name] {
		return name
	}
	return u.config.Name + "_" + name
}

// publishedURI returns the URI or template under which a resource is published: the name of the
// upstream becomes a part of the scheme.
func (u *upstream) publishedURI(uri string) string { return u.config.Name + "+" + uri }

// upstreamURI returns what the upstream calls a published URI.
func (u *upstream) upstreamURI(uri string) string {
	return strings.TrimPrefix(uri, u.config.Name+"+")
}

// publishResult rewrites the URIs in a result so that the client can read them here.
func (u *upstream) publishResult(result protocol.Result) protocol.Result {
	switch r := result.(type) {
	case *protocol.CallToolResult:
		mapped := *r
		mapped.Meta = publishMeta(r.Meta)
		mapped.Content = u.publishContent(r.Content)
		return &mapped
	case *protocol.GetPromptResult:
		mapped := *r
		mapped.Meta = publishMeta(r.Meta)
		mapped.Messages = make([]protocol.PromptMessage, len(r.Messages))
		for i, m := range r.Messages {
			mapped.Messages[i] = m
			if content := u.publishContent([]protocol.Content{m.Content}); len(content) == 1 {
				mapped.Messages[i].Content = content[0]
			}
		}
		return &mapped
	case *protocol.ReadResourceResult:
		mapped := *r
		mapped.Meta = publishMeta(r.Meta)
		mapped.Contents = make([]protocol.ResourceContents, len(r.Contents))
		for i, c := range r.Contents {
			c.URI = u.publishedURI(c.URI)
			mapped.Contents[i] = c
		}
		return &mapped
	}
	return result
}

// publishMeta drops who the upstream is: the gateway's server says who answers.
func publishMeta(meta protocol.Meta) protocol.Meta {
	if _, ok := meta.Get(protocol.MetaServerInfo); !ok {
		return meta
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(meta, &members) != nil {
		return nil
	}
	delete(members, protocol.MetaServerInfo)
	if len(members) == 0 {
		return nil
	}
	text, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return protocol.Meta(text)
}

func (u *upstream) publishContent(blocks []protocol.Content) []protocol.Content {
	mapped := make([]protocol.Content, len(blocks))
	for i, block := range blocks {
		switch b := block.(type) {
		case *protocol.ResourceLink:
			link := *b
			link.URI = u.publishedURI(link.URI)
			mapped[i] = &link
		case *protocol.EmbeddedResource:
			embedded := *b
			embedded.Resource.URI = u.publishedURI(embedded.Resource.URI)
			mapped[i] = &embedded
		default:
			mapped[i] = block
		}
	}
	return mapped
}
