package gateway

import (
	"slices"

	"github.com/rondo-mcp/rondo/protocol"
)

// publishResult rewrites the URIs in a result so that the client can read them here.
func (u *upstream) publishResult(result protocol.Result) protocol.Result {
	switch r := result.(type) {
	case *protocol.CallToolResult:
		mapped := *r
		mapped.Meta = u.publishMeta(r.Meta)
		mapped.Content = u.publishContent(r.Content)
		return &mapped
	case *protocol.GetPromptResult:
		mapped := *r
		mapped.Meta = u.publishMeta(r.Meta)
		for i, m := range r.Messages {
			if content := u.publishContent([]protocol.Content{m.Content})[0]; content != m.Content {
				if &mapped.Messages[0] == &r.Messages[0] {
					mapped.Messages = slices.Clone(r.Messages)
				}
				mapped.Messages[i].Content = content
			}
		}
		return &mapped
	case *protocol.ReadResourceResult:
		mapped := *r
		mapped.Meta = u.publishMeta(r.Meta)
		mapped.Contents = make([]protocol.ResourceContents, len(r.Contents))
		for i, c := range r.Contents {
			c.URI = u.names.PublishURI(c.URI)
			c.Meta = u.names.PublishAppURIs(c.Meta)
			mapped.Contents[i] = c
		}
		return &mapped
	}
	return result
}

// publishMeta drops the upstream's server info: the gateway's server adds its own.
func (u *upstream) publishMeta(meta protocol.Meta) protocol.Meta {
	return u.names.PublishAppURIs(meta.Without(protocol.MetaServerInfo))
}

// publishContent returns blocks with published URIs, unchanged ones byte by byte.
func (u *upstream) publishContent(blocks []protocol.Content) []protocol.Content {
	var mapped []protocol.Content
	for i, block := range blocks {
		switch b := block.(type) {
		case *protocol.ResourceLink:
			link := *b
			link.URI = u.names.PublishURI(link.URI)
			link.Meta = u.names.PublishAppURIs(link.Meta)
			block = &link
		case *protocol.EmbeddedResource:
			embedded := *b
			embedded.Resource.URI = u.names.PublishURI(embedded.Resource.URI)
			embedded.Resource.Meta = u.names.PublishAppURIs(embedded.Resource.Meta)
			block = &embedded
		default:
			continue
		}
		if mapped == nil {
			mapped = slices.Clone(blocks)
		}
		mapped[i] = block
	}
	if mapped == nil {
		return blocks
	}
	return mapped
}
