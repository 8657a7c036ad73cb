package protocol

// A Result answers a request: one of the pointer types of this package whose
// name ends in Result. The interface is sealed. A type that embeds one of them
// still satisfies it, but [EncodeResult] refuses everything but the exact
// types.
type Result interface {
	// ResultType returns "complete", "input_required" or, for the handle of a task, "task".
	ResultType() string
	isResult()
}

// The result types (basic/index, "ResultType").
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task" // of the tasks extension
)

// A CallToolOutcome is what tools/call may answer: a [*CallToolResult] or an
// [*InputRequiredResult]; with the tasks extension also a [*CreateTaskResult], which no
// handler returns itself.
type CallToolOutcome interface {
	Result
	isCallToolOutcome()
}

// A GetPromptOutcome is what prompts/get may answer: a [*GetPromptResult] or an
// [*InputRequiredResult].
type GetPromptOutcome interface {
	Result
	isGetPromptOutcome()
}

// A ReadResourceOutcome is what resources/read may answer: a
// [*ReadResourceResult] or an [*InputRequiredResult].
type ReadResourceOutcome interface {
	Result
	isReadResourceOutcome()
}

// EmptyResult answers requests whose result has no members of its own.
type EmptyResult struct{ Meta Meta }

// ResultType returns "complete".
func (*EmptyResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*CallToolResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*GetPromptResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*ReadResourceResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*ListToolsResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*ListPromptsResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*ListResourcesResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*ListResourceTemplatesResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*DiscoverResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*CompleteResult) ResultType() string { return resultComplete }

// ResultType returns "complete".
func (*ListenResult) ResultType() string { return resultComplete }

// ResultType returns "input_required".
func (*InputRequiredResult) ResultType() string { return resultInputRequired }

func (*EmptyResult) isResult()                 {}
func (*CallToolResult) isResult()              {}
func (*GetPromptResult) isResult()             {}
func (*ReadResourceResult) isResult()          {}
func (*ListToolsResult) isResult()             {}
func (*ListPromptsResult) isResult()           {}
func (*ListResourcesResult) isResult()         {}
func (*ListResourceTemplatesResult) isResult() {}
func (*DiscoverResult) isResult()              {}
func (*CompleteResult) isResult()              {}
func (*ListenResult) isResult()                {}
func (*InputRequiredResult) isResult()         {}

func (*CallToolResult) isCallToolOutcome()          {}
func (*InputRequiredResult) isCallToolOutcome()     {}
func (*GetPromptResult) isGetPromptOutcome()        {}
func (*InputRequiredResult) isGetPromptOutcome()    {}
func (*ReadResourceResult) isReadResourceOutcome()  {}
func (*InputRequiredResult) isReadResourceOutcome() {}
