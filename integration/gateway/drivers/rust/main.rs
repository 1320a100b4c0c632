//! Speaks the lines of README.md and acts with RocketMQ's own Rust client.
//!
//! Its version 5.0.0 has a producer and a simple consumer, and neither listeners nor priorities,
//! recalls or changes of invisible durations.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{Engine, BASE64_STANDARD};
use rocketmq::conf::{ClientOption, LoggingFormat, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{mpsc, oneshot, Mutex};

// It is the deadline of a receive as well, so that it must be longer than the gateway holds one.
const AWAIT: Duration = Duration::from_secs(25);

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Message {
    topic: String,
    body: String,
    tag: String,
    keys: Vec<String>,
    group: String,
    properties: HashMap<String, String>,
    deliver_in_ms: u64,
    priority: Option<i32>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Command {
    call: u64,
    #[serde(rename = "do")]
    verb: String,
    endpoints: String,
    tls: bool,
    key: String,
    secret: String,
    timeout_ms: u64,
    topic: String,
    group: String,
    tags: String,
    sql: String,
    messages: Vec<Message>,
    max: i32,
    invisible_ms: u64,
    numbers: Vec<usize>,
    answer: String,
}

/// What a transaction is told to do, by its number: its type cannot be named.
type Ending = oneshot::Sender<(bool, oneshot::Sender<Result<(), ClientError>>)>;

struct Sender {
    producer: Producer,
    answer: Arc<std::sync::Mutex<String>>,
    asked: Arc<std::sync::Mutex<Vec<Value>>>,
}

#[derive(Default)]
struct Driver {
    connected: Mutex<Command>,
    senders: Mutex<HashMap<String, Arc<Sender>>>,
    consumers: Mutex<HashMap<String, Arc<SimpleConsumer>>>,
    deliveries: Mutex<Vec<(Arc<SimpleConsumer>, Arc<MessageView>)>>,
    transactions: Mutex<Vec<Option<Ending>>>,
}

type Said = Result<Value, (String, String)>;

fn failed(error: ClientError) -> (String, String) {
    let code = error.context().iter().find(|(name, _)| *name == "code");
    let reason = code.map_or_else(|| error.kind().to_string(), |(_, code)| code.clone());
    (reason, error.to_string())
}

impl Driver {
    async fn option(&self) -> ClientOption {
        let connected = self.connected.lock().await;
        let mut option = ClientOption::default();
        option.set_access_url(connected.endpoints.clone());
        option.set_enable_tls(connected.tls);
        option.set_timeout(Duration::from_millis(connected.timeout_ms));
        option.set_long_polling_timeout(AWAIT);
        if !connected.key.is_empty() {
            option.set_access_key(connected.key.clone());
            option.set_secret_key(connected.secret.clone());
        }
        option
    }

    async fn sender(&self, topic: &str) -> Result<Arc<Sender>, ClientError> {
        let mut senders = self.senders.lock().await;
        if let Some(found) = senders.get(topic) {
            return Ok(found.clone());
        }
        let answer = Arc::new(std::sync::Mutex::new(String::new()));
        let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (answers, questions) = (answer.clone(), asked.clone());
        let check = move |_: String, message: MessageView| {
            let body = BASE64_STANDARD.encode(message.body());
            let said = json!({"id": message.message_id(), "body": body});
            questions.lock().unwrap().push(said);
            match answers.lock().unwrap().as_str() {
                "commit" => TransactionResolution::COMMIT,
                "rollback" => TransactionResolution::ROLLBACK,
                _ => TransactionResolution::UNKNOWN,
            }
        };
        let mut option = ProducerOption::default();
        option.set_topics(vec![topic]);
        option.set_logging_format(LoggingFormat::Terminal);
        let client = self.option().await;
        let mut producer = Producer::new_transaction_producer(option, client, Box::new(check))?;
        producer.start().await?;
        let sender = Arc::new(Sender { producer, answer, asked });
        senders.insert(topic.to_string(), sender.clone());
        Ok(sender)
    }

    async fn consumer(&self, asked: &Command) -> Result<Arc<SimpleConsumer>, ClientError> {
        let mut consumers = self.consumers.lock().await;
        if let Some(found) = consumers.get(&asked.group) {
            return Ok(found.clone());
        }
        let mut option = SimpleConsumerOption::default();
        option.set_topics(vec![asked.topic.as_str()]);
        option.set_consumer_group(asked.group.as_str());
        let mut consumer = SimpleConsumer::new(option, self.option().await)?;
        consumer.start().await?;
        let consumer = Arc::new(consumer);
        consumers.insert(asked.group.clone(), consumer.clone());
        Ok(consumer)
    }

    async fn perform(self: &Arc<Self>, asked: Command) -> Said {
        match asked.verb.as_str() {
            "connect" => {
                *self.connected.lock().await = asked;
                Ok(Value::Null)
            }
            "send" => self.send(&asked).await.map_err(failed),
            "receive" => self.receive(&asked).await.map_err(failed),
            "ack" => self.ack(&asked).await.map_err(failed),
            "leave" => {
                // Its consumers end by themselves, and cannot be ended by those who share them.
                self.consumers.lock().await.remove(&asked.group);
                Ok(Value::Null)
            }
            "transactions" => {
                let sender = self.sender(&asked.topic).await.map_err(failed)?;
                *sender.answer.lock().unwrap() = asked.answer;
                Ok(Value::Null)
            }
            "begin" => self.begin(&asked).await.map_err(failed),
            "commit" | "rollback" => self.end(&asked).await,
            "checked" => {
                let sender = self.sender(&asked.topic).await.map_err(failed)?;
                let said = sender.asked.lock().unwrap().clone();
                Ok(Value::Array(said))
            }
            verb => Err(("UNSUPPORTED".into(), format!("this client has no {verb}"))),
        }
    }

    async fn send(&self, asked: &Command) -> Result<Value, ClientError> {
        let sender = self.sender(&asked.topic).await?;
        let mut receipts = Vec::new();
        for each in &asked.messages {
            assert!(each.priority.is_none(), "this client has no priorities");
            let receipt = sender.producer.send(sent(each).build()?).await?;
            receipts.push(json!({"id": receipt.message_id(), "recall": ""}));
        }
        Ok(Value::Array(receipts))
    }

    async fn receive(&self, asked: &Command) -> Result<Value, ClientError> {
        let consumer = self.consumer(asked).await?;
        let filter = match (asked.sql.as_str(), asked.tags.as_str()) {
            ("", "") => FilterExpression::new(FilterType::Tag, "*"),
            ("", tags) => FilterExpression::new(FilterType::Tag, tags),
            (sql, _) => FilterExpression::new(FilterType::Sql, sql),
        };
        let invisible = Duration::from_millis(asked.invisible_ms);
        let found = consumer.receive_with(&asked.topic, &filter, asked.max, invisible).await?;
        let mut deliveries = self.deliveries.lock().await;
        let mut said = Vec::new();
        for each in found {
            let mut one = received(&each);
            one["number"] = json!(deliveries.len());
            deliveries.push((consumer.clone(), Arc::new(each)));
            said.push(one);
        }
        Ok(Value::Array(said))
    }

    async fn ack(&self, asked: &Command) -> Result<Value, ClientError> {
        for number in &asked.numbers {
            let (consumer, message) = self.deliveries.lock().await[*number].clone();
            consumer.ack(message.as_ref()).await?;
        }
        Ok(Value::Null)
    }

    async fn begin(&self, asked: &Command) -> Result<Value, ClientError> {
        let sender = self.sender(&asked.topic).await?;
        let said = &asked.messages[0];
        let mut message = MessageBuilder::transaction_message_builder(
            said.topic.as_str(),
            BASE64_STANDARD.decode(&said.body).unwrap(),
        )
        .set_properties(said.properties.clone())
        .set_keys(said.keys.clone());
        if !said.tag.is_empty() {
            message = message.set_tag(said.tag.as_str());
        }
        let transaction = sender.producer.send_transaction_message(message.build()?).await?;
        let id = transaction.message_id().to_string();
        let (ending, ended) = oneshot::channel();
        // What it borrows of the producer lives as long as this program.
        tokio::spawn(async move {
            let told: Result<(bool, oneshot::Sender<Result<(), ClientError>>), _> = ended.await;
            if let Ok((commits, answer)) = told {
                let done = if commits { transaction.commit().await } else { transaction.rollback().await };
                let _ = answer.send(done);
            }
        });
        let mut transactions = self.transactions.lock().await;
        transactions.push(Some(ending));
        Ok(json!({"number": transactions.len() - 1, "id": id}))
    }

    async fn end(&self, asked: &Command) -> Said {
        let ending = self.transactions.lock().await[asked.numbers[0]].take();
        let Some(ending) = ending else {
            return Err(("UNSUPPORTED".into(), "a transaction ends once".into()));
        };
        let (answer, answered) = oneshot::channel();
        let _ = ending.send((asked.verb == "commit", answer));
        answered.await.unwrap().map_err(failed)?;
        Ok(Value::Null)
    }
}

fn sent(said: &Message) -> MessageBuilder {
    let mut message = MessageBuilder::builder()
        .set_topic(said.topic.as_str())
        .set_body(BASE64_STANDARD.decode(&said.body).unwrap())
        .set_keys(said.keys.clone())
        .set_properties(said.properties.clone());
    if !said.tag.is_empty() {
        message = message.set_tag(said.tag.as_str());
    }
    if !said.group.is_empty() {
        message = message.set_message_group(said.group.as_str());
    }
    if said.deliver_in_ms > 0 {
        // The client takes whole seconds.
        let due = SystemTime::now() + Duration::from_millis(said.deliver_in_ms);
        let due = due.duration_since(UNIX_EPOCH).unwrap().as_secs() + 1;
        message = message.set_delivery_timestamp(due as i64);
    }
    message
}

fn received(message: &MessageView) -> Value {
    let mut keys = message.keys().to_vec();
    keys.sort();
    json!({
        "topic": message.topic(),
        "body": BASE64_STANDARD.encode(message.body()),
        "tag": message.tag().unwrap_or(""),
        "keys": keys,
        "group": message.message_group().unwrap_or(""),
        "properties": message.properties(),
        "id": message.message_id(),
        "attempt": message.delivery_attempt(),
        // The client does not look at digests.
        "corrupted": false,
        "at_ms": SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0,
    })
}

#[tokio::main]
async fn main() {
    let driver = Arc::new(Driver::default());
    let (said, mut lines) = mpsc::unbounded_channel::<Value>();
    let writer = tokio::task::spawn_blocking(move || {
        while let Some(each) = lines.blocking_recv() {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{each}").unwrap();
            out.flush().unwrap();
        }
    });
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = input.next_line().await.unwrap() {
        let asked: Command = serde_json::from_str(&line).unwrap();
        let (driver, said) = (driver.clone(), said.clone());
        tokio::spawn(async move {
            let call = asked.call;
            // A client that panics fails its call and nothing else.
            let done = tokio::spawn(async move { driver.perform(asked).await });
            let answer = match done.await {
                Ok(Ok(ok)) => json!({"call": call, "ok": ok}),
                Ok(Err((reason, text))) => json!({
                    "call": call,
                    "error": {"reason": reason, "text": text, "outcome_unknown": false},
                }),
                Err(panicked) => json!({
                    "call": call,
                    "error": {"reason": "PANIC", "text": panicked.to_string(), "outcome_unknown": true},
                }),
            };
            let _ = said.send(answer);
        });
    }
    drop(said);
    let _ = writer.await;
    std::process::exit(0);
}
