curl http://localhost:8080/mcp -H 'Content-Type: application/json' \
  -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: book' \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
    "name":"book","arguments":{"restaurant":"Chez Ada"},"_meta":{
    "io.modelcontextprotocol/protocolVersion":"2026-07-28",
    "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}'
