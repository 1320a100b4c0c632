export { Client, type ClientSettings, VERSION } from "./client.js";
export { Consumer, type ConsumerSettings, type Nack } from "./consumer.js";
export { Compression } from "./generated/ariane/common/v1/message.js";
export { ArianeError } from "./errors.js";
export { type CallSettings } from "./limit.js";
export { type Delivery, type Message, type Receipt } from "./message.js";
export { Producer } from "./producer.js";
export { type Credentials, type Tls } from "./security.js";
export { type Checker, type Outcome, Transaction, TransactionProducer } from "./transactions.js";
