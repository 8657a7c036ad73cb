package protocol

// A SubscriptionFilter names the notifications that a client opts in to
// (basic/patterns/subscriptions).
type SubscriptionFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitzero"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitzero"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitzero"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
	// TaskIDs are of the tasks extension.
	TaskIDs []string `json:"taskIds,omitempty"`
}

// ListenParams are the parameters of subscriptions/listen.
type ListenParams struct {
	Notifications SubscriptionFilter
	RequestMeta
}

// ListenResult ends a subscription.
type ListenResult struct {
	// Meta holds the id of the subscription under [MetaSubscriptionID].
	Meta Meta
}
