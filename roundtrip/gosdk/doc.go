package gosdk
