package wiretest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What follows is what each revision's messages may hold. The published schemas leave their objects
// open, so that with them alone a member of another era, or one with a spelling mistake, would go
// unnoticed; and these lists need no schema at hand. They are closed: an extension that this
// project begins to speak is to be added here.

// A shape is one method: who calls it, in which revisions, and the members of its parameters and
// result beside _meta. A member that not all of those revisions have is followed by @ and the first
// that has it, and by a comma and the last.
type shape struct {
	from         From // empty: either peer
	method       string
	since, until string // empty: from the first or to the last revision
	params       string
	result       string // of a request
	notification bool
}

const (
	lastWithSessions = "2025-11-25"
	firstWithRounds  = "2026-07-28"
	retry            = " inputResponses@2026-07-28 requestState@2026-07-28"
	hints            = " ttlMs@2026-07-28 cacheScope@2026-07-28"
)

func shapes() []shape {
	return slices.Concat(clientRequests(), serverRequests(), notifications())
}

// clientRequests are what clients ask of servers, and the ping of both.
func clientRequests() []shape {
	return []shape{
		{from: Client, method: "initialize", until: lastWithSessions,
			params: "protocolVersion capabilities clientInfo",
			result: "protocolVersion capabilities serverInfo instructions"},
		{from: Client, method: "server/discover", since: firstWithRounds,
			result: "supportedVersions capabilities instructions" + hints},
		{from: Client, method: "tools/list", params: "cursor", result: "tools nextCursor" + hints},
		{from: Client, method: "prompts/list", params: "cursor", result: "prompts nextCursor" +
			hints},
		{from: Client, method: "resources/list", params: "cursor", result: "resources nextCursor" +
			hints},
		{from: Client, method: "resources/templates/list", params: "cursor",
			result: "resourceTemplates nextCursor" + hints},
		{from: Client, method: "tools/call", params: "name arguments" + retry,
			result: "content isError structuredContent@2025-06-18"},
		{from: Client, method: "prompts/get", params: "name arguments" + retry,
			result: "description messages"},
		{from: Client, method: "resources/read", params: "uri" + retry, result: "contents" + hints},
		{from: Client, method: "completion/complete", params: "ref argument context@2025-06-18",
			result: "completion"},
		{from: Client, method: "subscriptions/listen", since: firstWithRounds,
			params: "notifications"},
		{from: Client, method: "logging/setLevel", until: lastWithSessions, params: "level"},
		{from: Client, method: "resources/subscribe", until: lastWithSessions, params: "uri"},
		{from: Client, method: "resources/unsubscribe", until: lastWithSessions, params: "uri"},
		{method: "ping", until: lastWithSessions},
	}
}

func serverRequests() []shape {
	return []shape{
		{from: Server, method: "elicitation/create", since: "2025-06-18", until: lastWithSessions,
			params: "message requestedSchema mode@2025-11-25 url@2025-11-25 " +
				"elicitationId@2025-11-25", result: "action content"},
		{from: Server, method: "sampling/createMessage", until: lastWithSessions,
			params: "messages modelPreferences systemPrompt includeContext temperature maxTokens " +
				"stopSequences metadata tools@2025-11-25 toolChoice@2025-11-25",
			result: "role content model stopReason"},
		{from: Server, method: "roots/list", until: lastWithSessions, result: "roots"},
	}
}

func notifications() []shape {
	return []shape{
		{notification: true, method: "notifications/cancelled", params: "requestId reason"},
		// The message came with 2025-03-26. It is sent to 2024-11-05 as well, whose clients show it
		// or pass over it.
		{notification: true, method: "notifications/progress", until: lastWithSessions,
			params: "progressToken progress total message"},
		{notification: true, from: Server, method: "notifications/progress", since: firstWithRounds,
			params: "progressToken progress total message"},
		{notification: true, from: Client, method: "notifications/initialized",
			until: lastWithSessions},
		{notification: true, from: Client, method: "notifications/roots/list_changed",
			until: lastWithSessions},
		{notification: true, from: Server, method: "notifications/message",
			params: "level logger data"},
		{notification: true, from: Server, method: "notifications/tools/list_changed"},
		{notification: true, from: Server, method: "notifications/prompts/list_changed"},
		{notification: true, from: Server, method: "notifications/resources/list_changed"},
		{notification: true, from: Server, method: "notifications/resources/updated",
			params: "uri"},
		{notification: true, from: Server, method: "notifications/elicitation/complete",
			since: lastWithSessions, until: lastWithSessions, params: "elicitationId"},
		{notification: true, from: Server, method: "notifications/subscriptions/acknowledged",
			since: firstWithRounds, params: "notifications"},
	}
}

// shapeOf is the shape of a method in a revision; from is empty for a response, which is looked up
// by what it answers.
func (r rules) shapeOf(from From, method string, notification bool) (shape, bool) {
	all := shapes()
	i := slices.IndexFunc(all, func(s shape) bool {
		return s.method == method && s.notification == notification &&
			(from == "" || s.from == "" || s.from == from) && r.within(s.since, s.until)
	})
	if i < 0 {
		return shape{}, false
	}
	return all[i], true
}

func (r rules) within(since, until string) bool {
	return r.revision >= since && (until == "" || r.revision <= until)
}

// members are those of a list that the revision has.
func (r rules) members(list string) []string {
	found := []string{"_meta"}
	for _, member := range strings.Fields(list) {
		name, span, _ := strings.Cut(member, "@")
		since, until, _ := strings.Cut(span, ",")
		if r.within(since, until) {
			found = append(found, name)
		}
	}
	return found
}

// closed refuses members that are not in list.
func (r rules) closed(what string, object map[string]any, list ...string) error {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(list, name) && !slices.Contains(r.foreign, name) {
			return fmt.Errorf("%s has no %s in %s", r.revision, name, what)
		}
	}
	return nil
}

// modernMeta are the keys of _meta that say with every message what a session says once.
func modernMeta() []string {
	const prefix = "io.modelcontextprotocol/"
	return []string{
		prefix + "protocolVersion", prefix + "clientInfo", prefix + "clientCapabilities",
		prefix + "logLevel", prefix + "serverInfo", prefix + "subscriptionId",
	}
}

// meta refuses keys of _meta that only revisions without sessions have.
func (r rules) meta(object map[string]any) error {
	meta, _ := object["_meta"].(map[string]any)
	if r.modern() {
		return nil
	}
	for _, name := range modernMeta() {
		if _, ok := meta[name]; ok {
			return fmt.Errorf("%s has no %s in _meta", r.revision, name)
		}
	}
	return nil
}
