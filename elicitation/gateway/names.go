package gateway

// Names depend on configuration, not on the order of upstreams or tools: all replicas agree.

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// upstreamForm excludes '_' and '+', which end the prefix, to make names unambiguous.
var upstreamForm = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,63}$`)

// nameClaims are the configured upstream names of a gateway. The zero value is ready.
type nameClaims struct {
	upstreams  map[string]*upstreamNames
	unprefixed map[string]*upstreamNames // owners by name
}

// Add claims an upstream's name and unprefixed names. It fails if names could be confused.
func (c *nameClaims) Add(upstream string, unprefixed []string) (*upstreamNames, error) {
	switch {
	case !upstreamForm.MatchString(upstream):
		return nil, fmt.Errorf("upstream %.64q: a name begins with a letter and has "+
			"lower-case letters, digits, '-' and '.' only", upstream)
	case c.upstreams[upstream] != nil:
		return nil, fmt.Errorf("upstream %q: there are two of this name", upstream)
	}
	n := &upstreamNames{prefix: upstream, unprefixed: map[string]bool{}}
	for _, name := range unprefixed {
		if name == "" {
			return nil, fmt.Errorf("upstream %q: an unprefixed name is empty", upstream)
		}
		owner := c.unprefixed[name]
		if n.unprefixed[name] {
			owner = n
		}
		if owner != nil {
			return nil, fmt.Errorf("unprefixed name %.64q: claimed by %q and %q", name,
				owner.prefix, upstream)
		}
		prefix, _, found := strings.Cut(name, "_")
		if found && (c.upstreams[prefix] != nil || prefix == upstream) {
			return nil, misread(name, upstream, prefix)
		}
		n.unprefixed[name] = true
	}
	for name, owner := range c.unprefixed {
		if strings.HasPrefix(name, upstream+"_") {
			return nil, misread(name, owner.prefix, upstream)
		}
	}
	if c.upstreams == nil {
		c.upstreams, c.unprefixed = map[string]*upstreamNames{}, map[string]*upstreamNames{}
	}
	c.upstreams[upstream] = n
	for name := range n.unprefixed {
		c.unprefixed[name] = n
	}
	return n, nil
}

func misread(name, owner, prefix string) error {
	return fmt.Errorf("unprefixed name %.64q of %q: it could be read as a tool of %q",
		name, owner, prefix)
}

type upstreamNames struct {
	prefix     string
	unprefixed map[string]bool
}

func (n *upstreamNames) Publish(own string) string {
	if n.unprefixed[own] {
		return own
	}
	return n.prefix + "_" + own
}

// appScheme of MCP Apps views stays, because clients look for it.
const appScheme = "ui://"

// PublishURI returns a published URI or template: the upstream's name joins the scheme or host.
func (n *upstreamNames) PublishURI(own string) string {
	if rest, ok := strings.CutPrefix(own, appScheme); ok {
		return appScheme + n.prefix + "/" + rest
	}
	return n.prefix + "+" + own
}

// OwnURI returns the upstream's own URI for a published one, false for another upstream's.
func (n *upstreamNames) OwnURI(published string) (own string, ok bool) {
	if rest, ok := strings.CutPrefix(published, appScheme+n.prefix+"/"); ok {
		return appScheme + rest, true
	}
	return strings.CutPrefix(published, n.prefix+"+")
}

// PublishAppURIs returns JSON with published URIs of apps.
func (n *upstreamNames) PublishAppURIs(raw protocol.Meta) protocol.Meta {
	if !bytes.Contains(raw, []byte("ui:")) {
		return raw
	}
	raw = bytes.ReplaceAll(raw, []byte(`"ui://`), []byte(`"ui://`+n.prefix+`/`))
	return bytes.ReplaceAll(raw, []byte(`"ui:\/\/`), []byte(`"ui:\/\/`+n.prefix+`/`))
}
