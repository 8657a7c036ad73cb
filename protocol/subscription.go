package protocol

// A SubscriptionFilter selects notifications (basic/patterns/subscriptions).
type SubscriptionFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitzero"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitzero"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitzero"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs               []string `json:"taskIds,omitempty"` // of the tasks extension
}

// ListenParams are the parameters of subscriptions/listen.
type ListenParams struct {
	Notifications SubscriptionFilter
	RequestMeta
}

// ListenResult ends a subscription.
type ListenResult struct {
	Meta Meta // [MetaSubscriptionID] holds the id of the subscription
}
