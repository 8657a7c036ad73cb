// Package naming says under which names a gateway publishes what its upstreams have. A name is made
// of the configuration alone: the order in which upstreams come, and what they call their tools,
// decide nothing, and every replica publishes the same.
package naming

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// upstreamName is the form of names. Neither '_' nor '+' may be in one: they end the prefix, so
// that every published name has one reading.
var upstreamName = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,63}$`)

// Claims are the names that the upstreams of a gateway have by configuration. Its zero value is
// ready. All methods may be called concurrently.
type Claims struct {
	mu         sync.Mutex
	upstreams  map[string]*Names
	unprefixed map[string]*Names // owners by name
}

// Add claims the name of an upstream, and the names of tools and prompts that it publishes as they
// are. It fails where another upstream has one of them, or where one could be read as that of
// another.
func (c *Claims) Add(upstream string, unprefixed []string) (*Names, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !upstreamName.MatchString(upstream):
		return nil, fmt.Errorf("upstream %.64q: a name begins with a letter and has "+
			"lower-case letters, digits, '-' and '.' only", upstream)
	case c.upstreams[upstream] != nil:
		return nil, fmt.Errorf("upstream %q: there are two of this name", upstream)
	}
	n := &Names{prefix: upstream, unprefixed: map[string]bool{}}
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
		c.upstreams, c.unprefixed = map[string]*Names{}, map[string]*Names{}
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

// Names are those of one upstream.
type Names struct {
	prefix     string
	unprefixed map[string]bool
}

// Unprefixed returns the names that are published as they are. It must not be changed.
func (n *Names) Unprefixed() map[string]bool { return n.unprefixed }

// Publish returns the name under which a tool or prompt is published.
func (n *Names) Publish(own string) string {
	if n.unprefixed[own] {
		return own
	}
	return n.prefix + "_" + own
}

// appScheme is that of the views of MCP Apps. Clients look for it, so that it stays.
const appScheme = "ui://"

// PublishURI returns the URI or template under which a resource is published: the name of the
// upstream becomes a part of the scheme, or the host of one of an app.
func (n *Names) PublishURI(own string) string {
	if rest, ok := strings.CutPrefix(own, appScheme); ok {
		return appScheme + n.prefix + "/" + rest
	}
	return n.prefix + "+" + own
}

// OwnURI returns what the upstream calls a published URI. It is false for one of another upstream.
func (n *Names) OwnURI(published string) (own string, ok bool) {
	if rest, ok := strings.CutPrefix(published, appScheme+n.prefix+"/"); ok {
		return appScheme + rest, true
	}
	return strings.CutPrefix(published, n.prefix+"+")
}

// PublishAppURIs returns JSON with the URIs of apps in it as they are published: every text that
// begins with the scheme.
func (n *Names) PublishAppURIs(raw []byte) []byte {
	if !bytes.Contains(raw, []byte("ui:")) {
		return raw
	}
	raw = bytes.ReplaceAll(raw, []byte(`"ui://`), []byte(`"ui://`+n.prefix+`/`))
	return bytes.ReplaceAll(raw, []byte(`"ui:\/\/`), []byte(`"ui:\/\/`+n.prefix+`/`))
}
