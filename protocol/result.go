package protocol

// A Result answers a request: one of the pointer types of this package whose name ends in Result.
// The interface is sealed. A type that embeds one of them still satisfies it, but [EncodeResult]
// refuses everything but the exact types.
type Result interface{ coded }

// The result types (basic/index, "ResultType").
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task" // of the tasks extension
)

// A CallToolOutcome is what tools/call may answer: a [*CallToolResult] or an
// [*InputRequiredResult]; with the tasks extension also a [*CreateTaskResult], which no handler
// returns itself.
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

// A ReadResourceOutcome is what resources/read may answer: a [*ReadResourceResult] or an
// [*InputRequiredResult].
type ReadResourceOutcome interface {
	Result
	isReadResourceOutcome()
}

// EmptyResult answers requests whose result has no members of its own.
type EmptyResult struct{ Meta Meta }

func (*EmptyResult) checkComplete() error  { return nil }
func (*ListenResult) checkComplete() error { return nil }

func (r *EmptyResult) codeMembers(w *objectWriter, m member) error {
	return w.codeMeta(m, &r.Meta)
}

func (r *ListenResult) codeMembers(w *objectWriter, m member) error {
	return w.codeMeta(m, &r.Meta)
}

func (*CallToolResult) isCallToolOutcome()          {}
func (*InputRequiredResult) isCallToolOutcome()     {}
func (*GetPromptResult) isGetPromptOutcome()        {}
func (*InputRequiredResult) isGetPromptOutcome()    {}
func (*ReadResourceResult) isReadResourceOutcome()  {}
func (*InputRequiredResult) isReadResourceOutcome() {}
