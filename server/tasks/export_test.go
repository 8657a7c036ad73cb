package tasks

// WithTasks sets how many tasks may be unfinished in all.
func WithTasks(o *Options, n int) *Options {
	o.tasks = n
	return o
}
