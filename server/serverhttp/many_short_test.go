//go:build !soak

package serverhttp_test

// manyStreams is how many streams TestManyStreams opens. With the tag soak it
// opens more, which takes two file descriptors each.
const manyStreams = 1000
