// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"net/http"

	"github.com/emicklei/go-restful/v3"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// writeLength is how much of a list is written at a time.
const writeLength = 64 << 10

// inLargeWrites writes a list in large parts. In HTTP/2 each part goes by way of two other goroutines, and what encodes and compresses a
// list writes some hundred bytes at a time, of which net/http makes parts of 4 KiB.
func inLargeWrites(request *restful.Request, response *restful.Response, chain *restful.FilterChain) {
	if info, ok := genericapirequest.RequestInfoFrom(request.Request.Context()); !ok || info.Verb != "list" {
		chain.ProcessFilter(request, response)
		return
	}
	to := response.ResponseWriter
	buffer := bufio.NewWriterSize(to, writeLength)
	response.ResponseWriter = bufferedAnswer{to, buffer}
	chain.ProcessFilter(request, response)
	_ = buffer.Flush() // an error is that the client has gone
}

type bufferedAnswer struct {
	http.ResponseWriter

	buffer *bufio.Writer
}

// Write implements io.Writer.
func (a bufferedAnswer) Write(data []byte) (int, error) { return a.buffer.Write(data) }
