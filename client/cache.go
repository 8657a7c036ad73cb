package client

import (
	lru "container/list"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Limits of [CacheOptions].
const (
	// defaultCacheBytes is how much memory results may take together: every
	// page of every list of a large server, and a working set of resources.
	defaultCacheBytes = 16 << 20
	// maxCacheTTL is the longest time that a result is fresh, whatever the
	// server says: a client that runs for weeks must notice changes that a
	// server forgot to announce.
	maxCacheTTL = 24 * time.Hour
)

// entryOverhead is roughly the memory that an entry takes besides its bytes.
const entryOverhead = 256

// CacheOptions configure the reuse of results (server/utilities/caching).
//
// Only complete results of server/discover, of the four lists and of
// resources/read are kept: for as long as the server reports that they are fresh,
// until it announces a change on a subscription ([Client.Listen]), or until
// they are evicted. Never kept are errors, results of calls with questions,
// answers or state, and results of requests with metadata of the caller's own,
// other than trace context.
type CacheOptions struct {
	// Disabled turns the cache off.
	Disabled bool
	// MaxBytes limits the cache. The least recently used results are
	// evicted first. 0: 16 MiB, negative: no limit.
	MaxBytes int
	// Partition returns the authorization context of a call. A private
	// result is reused within its own partition only. Set it where one
	// client serves several users. Nil: all calls share one partition, but
	// private results are not kept at all if the peer has a method
	// CredentialsVary that returns true, as an HTTP transport with an
	// Authorize hook or an Authorizer does. It may be called concurrently.
	Partition func(context.Context) string
}

// A cache keeps results as JSON text and decodes them for each caller, so that
// no caller can change what another gets. A nil cache keeps nothing.
type cache struct {
	maxBytes   int
	partition  func(context.Context) string
	publicOnly bool // credentials vary, but there is no partition to tell users apart

	mu      sync.Mutex
	entries map[cacheKey]*lru.Element // of *cacheEntry
	recent  *lru.List                 // most recently used first
	bytes   int                       // total of byteSize
	epoch   uint64                    // number of invalidations
}

// A cacheKey is what a result depends on. Public results have no partition.
type cacheKey struct{ partition, scope, method, target string }

// A cacheEntry is one result in the cache.
type cacheEntry struct {
	key    cacheKey
	result json.RawMessage
	until  time.Time
}

func (e *cacheEntry) byteSize() int {
	return len(e.result) + len(e.key.target) + len(e.key.partition) + entryOverhead
}

func newCache(o *CacheOptions, credentialsVary bool) *cache {
	if o == nil {
		o = &CacheOptions{}
	}
	if o.Disabled {
		return nil
	}
	c := &cache{partition: o.Partition}
	c.publicOnly = credentialsVary && c.partition == nil
	c.maxBytes = quota.LimitOr(o.MaxBytes, defaultCacheBytes)
	c.entries, c.recent = map[cacheKey]*lru.Element{}, lru.New()
	return c
}

// A cacheSlot is the place of one request in the cache, taken when the request
// begins. The zero cacheSlot keeps nothing.
type cacheSlot struct {
	cache   *cache
	version protocol.Version
	key     cacheKey // of the private result
	epoch   uint64   // of the cache when the request began
}

// slotFor returns the slot of a request, the zero slot if its result must not be
// kept. The slot must be taken before the request is sent.
func (c *cache) slotFor(ctx context.Context, version protocol.Version, l leg) cacheSlot {
	target, ok := cacheTarget(l.params)
	if c == nil || !ok {
		return cacheSlot{}
	}
	key := cacheKey{scope: string(protocol.CachePrivate), method: l.method, target: target}
	if c.partition != nil {
		key.partition = c.partition(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return cacheSlot{c, version, key, c.epoch}
}

// cacheTarget returns the parameter that a result depends on besides the
// method. It reports false when the result must not be kept.
func cacheTarget(p protocol.Params) (string, bool) {
	if !onlyTraceContext(p.RequestMetadata().Extra) {
		return "", false
	}
	switch p := p.(type) {
	case *protocol.DiscoverParams:
		return "", true
	case *protocol.ListParams:
		return p.Cursor, true
	case *protocol.ReadResourceParams:
		_, state := p.RequestState.Text()
		return p.URI, p.InputResponses == nil && !state
	}
	return "", false
}

// onlyTraceContext reports whether meta has no keys but those of trace context,
// which no result depends on. Any other key may change the result.
func onlyTraceContext(meta protocol.Meta) bool {
	if len(meta) == 0 {
		return true
	}
	only := jsonx.Check(meta) == nil
	err := jsonx.Members(meta, func(key, _ []byte) error {
		switch string(key) {
		case protocol.MetaTraceParent, protocol.MetaTraceState, protocol.MetaBaggage:
		default:
			only = false
		}
		return nil
	})
	return only && err == nil
}

// publicKey returns the key of the result that all partitions share.
func (e cacheSlot) publicKey() cacheKey {
	return cacheKey{scope: string(protocol.CachePublic), method: e.key.method, target: e.key.target}
}

// loadFresh returns the cached result if it is fresh, else nil. It sets the
// hints of the result to the time that is left.
func (e cacheSlot) loadFresh(ctx context.Context) protocol.Result {
	if e.cache == nil || bypassesCache(ctx) || ctx.Err() != nil {
		return nil
	}
	for _, key := range [...]cacheKey{e.key, e.publicKey()} {
		raw, left := e.cache.loadResult(key)
		if raw == nil {
			continue
		}
		result, err := protocol.DecodeResult(e.version, e.key.method, raw)
		if err != nil {
			continue // cannot happen: storeResult encoded it
		}
		if hints := cacheHintsOf(result); hints != nil {
			hints.TTLMillis = left.Milliseconds()
		}
		return result
	}
	return nil
}

// storeResult keeps a result that has just been received. A result that must
// not be kept removes the cached one, which is older.
func (e cacheSlot) storeResult(result protocol.Result) {
	hints := cacheHintsOf(result)
	if e.cache == nil || hints == nil {
		return
	}
	if hints.TTLMillis <= 0 || (e.cache.publicOnly && hints.Scope != protocol.CachePublic) {
		// remove the older result
		e.cache.storeEntry(&cacheEntry{key: e.key}, e.publicKey(), e.epoch)
		return
	}
	ttl := time.Duration(min(hints.TTLMillis, maxCacheTTL.Milliseconds())) * time.Millisecond
	raw, err := protocol.EncodeResult(e.version, e.key.method, result)
	if err != nil {
		return
	}
	key, other := e.key, e.publicKey()
	if hints.Scope == protocol.CachePublic {
		key, other = other, key
	}
	e.cache.storeEntry(&cacheEntry{key, raw, time.Now().Add(ttl)}, other, e.epoch)
}

// cacheHintsOf returns the hints of a result, nil when its type has none.
func cacheHintsOf(r protocol.Result) *protocol.CacheHints {
	switch r := r.(type) {
	case *protocol.DiscoverResult:
		return &r.Cache
	case *protocol.ListToolsResult:
		return &r.Cache
	case *protocol.ListPromptsResult:
		return &r.Cache
	case *protocol.ListResourcesResult:
		return &r.Cache
	case *protocol.ListResourceTemplatesResult:
		return &r.Cache
	case *protocol.ReadResourceResult:
		return &r.Cache
	}
	return nil
}

// loadResult returns a copy of the result at key and how long it stays fresh,
// nil when there is none.
func (c *cache) loadResult(key cacheKey) (json.RawMessage, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[key]
	if at == nil {
		return nil, 0
	}
	e := at.Value.(*cacheEntry)
	left := time.Until(e.until)
	if left <= 0 {
		c.removeLocked(at)
		return nil, 0
	}
	c.recent.MoveToFront(at)
	return append(json.RawMessage(nil), e.result...), left
}

// storeEntry replaces the entries at e.key and other with e; an e without a
// result only removes them. It does nothing if there was an invalidation since
// epoch: then the result may be older than the change.
func (c *cache) storeEntry(e *cacheEntry, other cacheKey, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch {
		return
	}
	for _, key := range [...]cacheKey{e.key, other} {
		if at := c.entries[key]; at != nil {
			c.removeLocked(at)
		}
	}
	if e.result == nil || e.byteSize() > c.maxBytes {
		return
	}
	for c.bytes+e.byteSize() > c.maxBytes {
		c.removeLocked(c.recent.Back())
	}
	c.entries[e.key] = c.recent.PushFront(e)
	c.bytes += e.byteSize()
}

// removeLocked removes one entry. The caller holds c.mu.
func (c *cache) removeLocked(at *lru.Element) {
	e := c.recent.Remove(at).(*cacheEntry)
	delete(c.entries, e.key)
	c.bytes -= e.byteSize()
}

// forgetMethods drops the results of the given methods.
func (c *cache) forgetMethods(methods ...string) {
	c.forgetMatching(func(key cacheKey) bool { return slices.Contains(methods, key.method) })
}

// forgetResource drops the cached contents of a resource and of those that may
// contain it: their URIs are prefixes of its own.
func (c *cache) forgetResource(uri string) {
	c.forgetMatching(func(key cacheKey) bool {
		return key.method == protocol.MethodReadResource && strings.HasPrefix(uri, key.target)
	})
}

// forgetMatching drops the entries whose keys match, and makes requests in
// flight keep nothing.
func (c *cache) forgetMatching(old func(cacheKey) bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	for key, at := range c.entries {
		if old(key) {
			c.removeLocked(at)
		}
	}
}

// forgetChanged drops the results that an event makes out of date.
func (c *cache) forgetChanged(event ListenEvent) {
	switch event := event.(type) {
	case ToolsChanged:
		c.forgetMethods(protocol.MethodListTools)
	case PromptsChanged:
		c.forgetMethods(protocol.MethodListPrompts)
	case ResourcesChanged:
		c.forgetMethods(protocol.MethodListResources, protocol.MethodListResourceTemplates)
	case ResourceUpdated:
		c.forgetResource(event.URI)
	}
}
