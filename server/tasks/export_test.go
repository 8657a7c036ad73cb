package tasks

func WithTasks(o *Options, n int) *Options {
	o.tasks = n
	return o
}
