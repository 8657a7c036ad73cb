package protocol

// Methods of requests that a client sends.
const (
	MethodDiscover              = "server/discover"
	MethodListTools             = "tools/list"
	MethodCallTool              = "tools/call"
	MethodListPrompts           = "prompts/list"
	MethodGetPrompt             = "prompts/get"
	MethodListResources         = "resources/list"
	MethodListResourceTemplates = "resources/templates/list"
	MethodReadResource          = "resources/read"
	MethodComplete              = "completion/complete"
	MethodListen                = "subscriptions/listen"
)

// Methods of the tasks extension. NotifyTask is its notification.
const (
	MethodGetTask    = "tasks/get"
	MethodUpdateTask = "tasks/update"
	MethodCancelTask = "tasks/cancel"

	NotifyTask = "notifications/tasks"
)

// Methods of requests that only legacy clients send.
const (
	MethodInitialize  = "initialize"
	MethodPing        = "ping"
	MethodSetLevel    = "logging/setLevel"
	MethodSubscribe   = "resources/subscribe"
	MethodUnsubscribe = "resources/unsubscribe"
)

// Methods of questions: [InputRequests] in modern revisions, the server's requests in legacy ones.
const (
	MethodElicit        = "elicitation/create"
	MethodCreateMessage = "sampling/createMessage"
	MethodListRoots     = "roots/list"
)

// Methods of notifications.
const (
	NotifyCancelled            = "notifications/cancelled"
	NotifyInitialized          = "notifications/initialized"
	NotifyProgress             = "notifications/progress"
	NotifyMessage              = "notifications/message"
	NotifyToolsChanged         = "notifications/tools/list_changed"
	NotifyPromptsChanged       = "notifications/prompts/list_changed"
	NotifyResourcesChanged     = "notifications/resources/list_changed"
	NotifyResourceUpdated      = "notifications/resources/updated"
	NotifyAcknowledged         = "notifications/subscriptions/acknowledged"
	NotifyElicitationCompleted = "notifications/elicitation/complete"
)

// MultiRoundTrip reports whether a modern server may answer method with an [InputRequiredResult]
// (basic/patterns/mrtr, "Supported Requests").
func MultiRoundTrip(method string) bool {
	return method == MethodCallTool || method == MethodGetPrompt || method == MethodReadResource
}

// internMethod converts name without allocating for frequent methods.
func internMethod(name []byte) string {
	for _, known := range [...]string{
		MethodCallTool, MethodGetPrompt, MethodReadResource, MethodListTools, MethodListPrompts,
		MethodListResources, MethodListResourceTemplates, MethodDiscover, MethodComplete,
		MethodListen,
		NotifyProgress, NotifyCancelled, NotifyMessage, MethodPing,
	} {
		if string(name) == known {
			return known
		}
	}
	return string(name)
}
