package natsbus
